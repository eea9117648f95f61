"""Memory that grader and child share, with guard zones around the data: sealed memfds, or allocations on a GPU.

A buffer is one memfd of fixed size. It is sealed against shrinking (a child's `ftruncate` would otherwise kill the
grader by SIGBUS), growing and further seals. On a GPU it is one allocation of the driver's. Layout, in bytes:

    [ HEAD guard | data, `used` bytes | guard to the end of the file, TAIL or more ]

HEAD is a multiple of 128 but not of 256: data is aligned as well as an allocator would align it and no better. The
guards hold a random pattern of this run. The grader compares them after a call; a kernel that writes past its tensor
lands there.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import itertools
import mmap
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final

import numpy as np
import torch

from . import driver

HEAD: Final = 4096 + 128
DEVICE_HEAD: Final = 4096 + 512  # on a GPU an allocator aligns to 512
TAIL: Final = 4096
_PAGE: Final = mmap.PAGESIZE
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_PATTERN: Final = os.urandom(DEVICE_HEAD + TAIL + 2 * _PAGE)
_NOISE_SIZE: Final = 1 << 20
LINE: Final = 256  # bytes that are copied together on a GPU: where outputs of timed calls begin is a multiple of it
HUGE: Final = 0x7B  # a byte of which any float is finite, and huge

_libc = ctypes.CDLL(None, use_errno=True)
_compare = _libc.memcmp
_compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_compare.restype = ctypes.c_int
_pattern = torch.frombuffer(bytearray(_PATTERN), dtype=torch.uint8)
_mmap = _libc.mmap
_mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_mmap.restype = ctypes.c_void_p
_munmap = _libc.munmap
_munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_MAP_FAILED: Final = ctypes.c_void_p(-1).value
# AddressSanitizer's, in a process that has it: which memory nobody may touch. Instrumented code asks at each access.
_forbid = getattr(_libc, "__asan_poison_memory_region", None)
_allow = getattr(_libc, "__asan_unpoison_memory_region", None)
_numbers = itertools.count(1)


def _map(fd: int, size: int) -> ctypes.Array[ctypes.c_char]:
    """Shared memory of a file, unmapped with the last tensor over it. Raises `OSError`.

    Not `mmap.mmap`: that keeps a duplicate of the descriptor, which the candidate would find.
    """
    address = _mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    if address is None or address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), "mmap of a shared buffer")
    mapping = (ctypes.c_char * size).from_address(address)
    weakref.finalize(mapping, _unmap, address, size).atexit = False
    return mapping


def _unmap(address: int, size: int) -> None:
    if _allow is not None:  # of these addresses, whatever is mapped there next
        _allow(ctypes.c_void_p(address), ctypes.c_size_t(size))
    _munmap(address, size)


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two dense tensors of one size and device hold the same bytes (NaN equals itself here)."""
    count = left.numel() * left.element_size()
    if left.is_cuda:
        return torch.equal(left.reshape(-1).view(torch.uint8), right.reshape(-1).view(torch.uint8))
    return count == 0 or not _compare(left.data_ptr(), right.data_ptr(), count)


@functools.cache
def _noise(bits: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Random bytes masked with `bits`. Made when first needed, by numpy: the zygote, which imports this module, must
    not enter an OpenMP region."""
    return np.frombuffer(os.urandom(_NOISE_SIZE), dtype=np.uint8) & np.uint8(bits)


@functools.cache
def _noise_on(device: torch.device, bits: int) -> torch.Tensor:
    return torch.from_numpy(_noise(bits)).to(device)


def poison(target: torch.Tensor, dtype: torch.dtype) -> None:
    """Fill flat bytes (`uint8`) with what no kernel should leave behind, as elements of `dtype`.

    Floating and complex: 0xFF bytes, a NaN. Integers: noise. Booleans: noise of 0 and 1.
    """
    address, count = target.data_ptr(), target.numel()
    floats = dtype.is_floating_point or dtype.is_complex
    if floats and target.is_cuda:
        target.fill_(0xFF)
        return
    if floats:
        ctypes.memset(address, 0xFF, count)
        return
    if target.is_cuda:
        target.random_(0, 2 if dtype is torch.bool else 256)
        return
    bits, start, step = 1 if dtype is torch.bool else 0xFF, int.from_bytes(os.urandom(2)) % 4093, _NOISE_SIZE - 4096
    for begin in range(0, count, step):
        size = min(step, count - begin)
        ctypes.memmove(address + begin, _noise(bits).ctypes.data + start, size)


def mislead(target: torch.Tensor, dtype: torch.dtype) -> None:
    """Fill flat bytes (`uint8`) that no kernel should use with elements of `dtype` that show if one does.

    Floating and complex: huge numbers of either sign. They are finite, because a kernel may read what it multiplies by
    zero: oneDNN's for AMX do so beside rows of bfloat16, and a NaN would make torch's own products wrong. Others as for
    `poison`.
    """
    if not (dtype.is_floating_point or dtype.is_complex):
        poison(target, dtype)
        return
    size = dtype.itemsize // (2 if dtype.is_complex else 1)
    target.fill_(HUGE)
    tops = target[size - 1 :: size]
    start = int.from_bytes(os.urandom(2)) % 4093
    for begin in range(0, tops.numel(), _NOISE_SIZE - 4096):
        part = tops[begin : begin + _NOISE_SIZE - 4096]
        part |= _noise_on(target.device, 0x80)[start : start + part.numel()]


def tensor_over(
    storage: torch.UntypedStorage,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
) -> torch.Tensor:
    """A tensor (not a view of another) over a storage; strides and offset are in elements."""
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, shape, strides)


class SharedBuffer(ABC):
    """Memory with guard zones that a child maps too; `number` names it on the wire."""

    def __init__(self, memory: torch.Tensor, head: int) -> None:
        self.number = next(_numbers)
        self.size = memory.numel()
        self.used = -1
        self.storage = memory.untyped_storage()
        self._bytes, self._head = memory, head
        self._guard = _guard_on(memory.device)

    @property
    def capacity(self) -> int:
        """Bytes of data for which there is room."""
        return self.size - self._head - TAIL

    @property
    def data(self) -> torch.Tensor:
        """The data bytes, shared."""
        return self._bytes[self._head : self._head + self.used]

    def arrange(self, used: int) -> None:
        """Make room for `used` bytes of data: guards are written where they are not yet."""
        if used == self.used:
            return
        if used > self.capacity:
            raise ValueError(f"{used} bytes do not fit into {self.capacity}")
        self.used = used
        self._write_guards()

    def _guards(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Each guard as it is, and as it must be."""
        end = self._head + self.used
        tail = min(self.size - end, self._guard.numel() - self._head)
        yield self._bytes[: self._head], self._guard[: self._head]
        yield self._bytes[end : end + tail], self._guard[self._head : self._head + tail]

    def _write_guards(self) -> None:
        for there, due in self._guards():
            there.copy_(due)

    def overran(self) -> bool:
        """Whether a guard was written since `arrange`; if so, it is restored."""
        if all(same_bytes(there, due) for there, due in self._guards()):
            return False
        self._write_guards()
        return True

    def tensor(
        self, dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, begin: int = 0
    ) -> torch.Tensor:
        """The shared data, from the byte `begin` on, as a tensor, in the grader."""
        return tensor_over(self.storage, dtype, shape, strides, (self._head + begin) // dtype.itemsize + offset)

    def write(self, values: torch.Tensor) -> None:
        """Put the bytes of a dense tensor there."""
        self.data[: _bytes_of(values)].copy_(values.reshape(-1).view(torch.uint8))

    def holds(self, values: torch.Tensor) -> bool:
        """Whether the bytes of a dense tensor are there."""
        return same_bytes(values, self.data[: _bytes_of(values)])

    def copy(self, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
        """A private copy of what is there now."""
        result = torch.empty(tuple(shape), dtype=dtype, device=self._bytes.device)
        result.view(-1).view(torch.uint8).copy_(self.data[: _bytes_of(result)])
        return result

    @property
    @abstractmethod
    def shared(self) -> tuple[int, str]:
        """What the child maps: a descriptor, or -1 and a handle."""

    @abstractmethod
    def close(self) -> None:
        """Share it with no further child; the memory goes with the last tensor over it."""


class HostBuffer(SharedBuffer):
    """One sealed memfd, mapped here; `fd` is what the child maps.

    Raises `OSError` when the kernel has no memory to give.
    """

    def __init__(self, capacity: int) -> None:
        size = -(-(HEAD + max(capacity, 1) + TAIL) // _PAGE) * _PAGE
        self.fd = os.memfd_create("kbench", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEALS)
            super().__init__(torch.frombuffer(_map(self.fd, size), dtype=torch.uint8), HEAD)
        except BaseException:
            os.close(self.fd)
            raise

    @property
    def address(self) -> int:
        """Of the first data byte, in the grader."""
        return self._bytes.data_ptr() + HEAD

    @property
    def shared(self) -> tuple[int, str]:
        """What the child maps: a descriptor."""
        return self.fd, ""

    def close(self) -> None:
        """Give the descriptor back."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class DeviceBuffer(SharedBuffer):
    """One allocation on a GPU; `handle` is what the child opens.

    Raises `OSError` when the device has no memory to give.
    """

    def __init__(self, capacity: int, device: torch.device) -> None:
        index = device.index or 0
        size = -(-(DEVICE_HEAD + max(capacity, 1) + TAIL) // driver.GRAIN) * driver.GRAIN
        address = _allocated(size, index)
        memory = device_bytes(address, size, index, lambda: driver.free(address, index))
        memory.fill_(HUGE)  # what was there before was this process's own: golden values, say
        super().__init__(memory, DEVICE_HEAD)
        self._handle = driver.export(address, index).hex()

    @property
    def shared(self) -> tuple[int, str]:
        """What the child opens: a handle."""
        return -1, self._handle

    def close(self) -> None:
        """Nothing: a handle needs no descriptor."""


def _allocated(size: int, device: int) -> int:
    """So many bytes of the driver's; what torch only keeps for later is given back first, if need be."""
    try:
        return driver.allocate(size, device)
    except driver.NoMemory:
        torch.cuda.empty_cache()
        return driver.allocate(size, device)


def shared_buffer(capacity: int, device: torch.device) -> SharedBuffer:
    """Memory of this device to share. Raises `OSError` where there is none."""
    return DeviceBuffer(capacity, device) if device.type == "cuda" else HostBuffer(capacity)


def device_bytes(address: int, size: int, device: int, end: Callable[[], object]) -> torch.Tensor:
    """Memory of a GPU as flat bytes; `end` is called when the last tensor over it is gone."""

    class Memory:
        __cuda_array_interface__: ClassVar = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3
        }  # fmt: skip

    memory = Memory()
    weakref.finalize(memory, end).atexit = False
    return torch.as_tensor(memory, device=f"cuda:{device}")


@functools.cache
def _guard_on(device: torch.device) -> torch.Tensor:
    return _pattern.to(device)


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


class OpenedBuffer:
    """The child's view of a buffer on a GPU."""

    def __init__(self, handle: bytes, size: int, device: int) -> None:
        address = driver.opened(handle, device)
        self._bytes = device_bytes(address, size, device, lambda: driver.closed(handle, device))

    @property
    def address(self) -> int:
        """Of the first data byte."""
        return self._bytes.data_ptr() + DEVICE_HEAD

    def storage(self, used: int, begin: int = 0) -> torch.UntypedStorage:
        """A storage of exactly `used` bytes, over the data from the byte `begin` on."""
        whole = self._bytes
        if used == 0:
            return torch.UntypedStorage(0, device=whole.device)
        part = device_bytes(self.address + begin, used, whole.device.index, whole.data_ptr)  # keeps the whole alive
        return part.untyped_storage()

    def fence(self, begin: int, end: int) -> None:
        """Nothing: no sanitizer of the compiler's watches a GPU."""


class MappedBuffer:
    """The child's mapping of a buffer. The descriptor is closed at once: a mapping needs none."""

    def __init__(self, fd: int, size: int) -> None:
        try:
            self._map = _map(fd, size)
        finally:
            os.close(fd)
        self._fence: tuple[int, int] | None = None

    def storage(self, used: int, begin: int = 0) -> torch.UntypedStorage:
        """A storage of exactly `used` bytes, over the data from the byte `begin` on."""
        if used == 0:
            return torch.UntypedStorage(0)
        return torch.frombuffer(self._map, dtype=torch.uint8, count=used, offset=HEAD + begin).untyped_storage()

    def fence(self, begin: int, end: int) -> None:
        """Under AddressSanitizer, let instrumented code touch nothing of the mapping but these bytes of the data."""
        if _forbid is None or _allow is None or self._fence == (begin, end):
            return
        self._fence = begin, end
        address = ctypes.addressof(self._map)
        first, last, size = address + HEAD + begin, address + HEAD + end, ctypes.sizeof(self._map)
        _allow(ctypes.c_void_p(address), ctypes.c_size_t(size))
        _forbid(ctypes.c_void_p(address), ctypes.c_size_t(first - address))
        _forbid(ctypes.c_void_p(last), ctypes.c_size_t(address + size - last))
