"""CUDA's driver, as far as torch does not give it: memory that one process allocates and others map.

Each allocation is one of the driver's own. What is shared with another process is always a whole one: neighbours in a
caching allocator, golden values among them, would go along (CUDA driver API, section 6.14, cuIpcGetMemHandle).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterator
from typing import Final

HANDLE: Final = 64  # bytes of a handle by which another process opens an allocation
GRAIN: Final = 2 << 20  # bytes: what is smaller shares a block with others, all of which a handle opens
_LAZY_PEER_ACCESS: Final = 1
_OUT_OF_MEMORY: Final = 2


class _Handle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_char * HANDLE),)


class DriverError(OSError):
    """The driver refused something; the message says what, and how the driver calls the reason."""


class NoMemory(DriverError):
    """The GPU has no memory left."""


@functools.cache
def _library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DriverError(f"there is no CUDA driver: {error}") from error


def start() -> None:
    """Initialise the driver, with no context yet: a locked-down process can do all that comes after, but not this."""
    _check(_library().cuInit(0), "cuInit")


def folders() -> tuple[str, ...]:
    """Where the driver's libraries lie that this process has loaded: compilers of kernels link with them."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
        found = [line.split(maxsplit=5)[-1].strip() for line in lines if "/libcuda." in line]
    return tuple(dict.fromkeys(os.path.dirname(path) for path in found))


@functools.cache
def _context(device: int) -> ctypes.c_void_p:
    """The context that torch uses too."""
    start()
    number, context = ctypes.c_int(), ctypes.c_void_p()
    _check(_library().cuDeviceGet(ctypes.byref(number), device), "cuDeviceGet")
    _check(_library().cuDevicePrimaryCtxRetain(ctypes.byref(context), number), "cuDevicePrimaryCtxRetain")
    return context


@contextlib.contextmanager
def _current(device: int) -> Iterator[ctypes.CDLL]:
    """The library, with this device's context current in the calling thread."""
    library = _library()
    _check(library.cuCtxPushCurrent_v2(_context(device)), "cuCtxPushCurrent")
    try:
        yield library
    finally:
        library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def allocate(count: int, device: int) -> int:
    """The address of so many bytes, rounded up to whole blocks. Raises `DriverError` where there is no memory."""
    address = ctypes.c_uint64()
    with _current(device) as library:
        size = -(-max(count, 1) // GRAIN) * GRAIN
        _check(library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), f"{size} bytes")
    return address.value


def free(address: int, device: int) -> None:
    """Give an allocation back."""
    with _current(device) as library:
        library.cuMemFree_v2(ctypes.c_uint64(address))


def export(address: int, device: int) -> bytes:
    """The handle by which another process opens this allocation."""
    handle = _Handle()
    with _current(device) as library:
        _check(library.cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(address)), "cuIpcGetMemHandle")
    return ctypes.string_at(ctypes.byref(handle), HANDLE)


_open: dict[bytes, tuple[int, int]] = {}  # by handle: address, and how often it is in use


def opened(handle: bytes, device: int) -> int:
    """The address, here, of an allocation of another process. The driver opens none twice."""
    known, uses = _open.get(handle, (0, 0))
    if uses:
        _open[handle] = known, uses + 1
        return known
    given, address = _Handle(), ctypes.c_uint64()
    ctypes.memmove(ctypes.byref(given), handle, HANDLE)
    with _current(device) as library:
        code = library.cuIpcOpenMemHandle_v2(ctypes.byref(address), given, ctypes.c_uint(_LAZY_PEER_ACCESS))
        _check(code, "cuIpcOpenMemHandle")
    _open[handle] = address.value, 1
    return address.value


def closed(handle: bytes, device: int) -> None:
    """Have no more use for an allocation of another process; with the last use it is closed."""
    address, uses = _open.pop(handle)
    if uses > 1:
        _open[handle] = address, uses - 1
        return
    with _current(device) as library:
        library.cuIpcCloseMemHandle(ctypes.c_uint64(address))


def settle_cache(device: int) -> None:
    """Let no line of the L2 cache stay longer than others: kernels may have asked for that."""
    with _current(device) as library:
        library.cuCtxResetPersistingL2Cache()


def captured(stream: int, device: int) -> tuple[int, list[int]]:
    """The graph that is being captured on a stream, and the nodes in it that whatever comes next will wait for."""
    status, number, graph = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p()
    nodes, edges, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_void_p(), ctypes.c_size_t()
    told = (ctypes.byref(each) for each in (status, number, graph, nodes, edges, count))
    with _current(device) as library:
        _check(library.cuStreamGetCaptureInfo_v3(ctypes.c_void_p(stream), *told), "cuStreamGetCaptureInfo")
    return graph.value or 0, [nodes[each] or 0 for each in range(count.value)]


def nodes_in(graph: int) -> int:
    """How many nodes a graph has."""
    count = ctypes.c_size_t()
    _check(_library().cuGraphGetNodes(ctypes.c_void_p(graph), None, ctypes.byref(count)), "cuGraphGetNodes")
    return count.value


def parts_of(graph: int) -> tuple[list[int], list[tuple[int, int]]]:
    """The nodes of a graph in the order in which they were made, and its edges: from which node to which."""
    library, count, edges = _library(), ctypes.c_size_t(nodes_in(graph)), ctypes.c_size_t()
    get = library.cuGraphGetEdges_v2
    _check(get(ctypes.c_void_p(graph), None, None, None, ctypes.byref(edges)), "cuGraphGetEdges")
    nodes = (ctypes.c_void_p * count.value)()
    begins, ends = ((ctypes.c_void_p * edges.value)() for _ in range(2))
    kinds = (ctypes.c_uint64 * edges.value)()
    if count.value:  # it refuses to list none
        _check(library.cuGraphGetNodes(ctypes.c_void_p(graph), nodes, ctypes.byref(count)), "cuGraphGetNodes")
    if edges.value:
        _check(get(ctypes.c_void_p(graph), begins, ends, kinds, ctypes.byref(edges)), "cuGraphGetEdges")
    return [each or 0 for each in nodes], [(a or 0, b or 0) for a, b in zip(begins, ends, strict=True)]


def version() -> int:
    """The CUDA version that the driver is made for, as it counts: 13000 is 13.0."""
    found = ctypes.c_int()
    _check(_library().cuDriverGetVersion(ctypes.byref(found)), "asking for the driver's version")
    return found.value


def _check(code: int, what: str) -> None:
    if code == 0:
        return
    name = ctypes.c_char_p()
    with contextlib.suppress(OSError):
        _library().cuGetErrorName(code, ctypes.byref(name))
    said = (name.value or b"").decode("ascii", "replace") or str(code)
    kind = NoMemory if code == _OUT_OF_MEMORY else DriverError
    raise kind(f"the CUDA driver: {said} ({what})")
