"""Memory that grader and child share: sealed memfds, with guard zones around the data.

A buffer is one memfd of fixed size. It is sealed against shrinking (a child's `ftruncate` would otherwise kill the
grader by SIGBUS), growing and further seals. Layout, in bytes:

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
from typing import Final

import numpy as np
import torch

HEAD: Final = 4096 + 128
TAIL: Final = 4096
_PAGE: Final = mmap.PAGESIZE
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_PATTERN: Final = os.urandom(HEAD + TAIL + 2 * _PAGE)
_NOISE_SIZE: Final = 1 << 20

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


def same_bytes(left: int, right: int, count: int) -> bool:
    """Whether `count` bytes at two addresses are equal, bit by bit (NaN equals itself here)."""
    return count == 0 or not _compare(left, right, count)


@functools.cache
def _noise(bits: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Random bytes masked with `bits`. Made when first needed, by numpy: the zygote, which imports this module, must
    not enter an OpenMP region."""
    return np.frombuffer(os.urandom(_NOISE_SIZE), dtype=np.uint8) & np.uint8(bits)


def poison(target: torch.Tensor, dtype: torch.dtype) -> None:
    """Fill flat bytes (`uint8`) with what no kernel should leave behind, as elements of `dtype`.

    Floating and complex: 0xFF bytes, a NaN. Integers: noise. Booleans: noise of 0 and 1.
    """
    address, count = target.data_ptr(), target.numel()
    if dtype.is_floating_point or dtype.is_complex:
        ctypes.memset(address, 0xFF, count)
        return
    noise = _noise(1 if dtype is torch.bool else 0xFF).ctypes.data + int.from_bytes(os.urandom(2)) % 4093
    step = _NOISE_SIZE - 4096
    for begin in range(0, count, step):
        ctypes.memmove(address + begin, noise, min(step, count - begin))


def tensor_over(
    storage: torch.UntypedStorage,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
) -> torch.Tensor:
    """A tensor (not a view of another) over a storage; strides and offset are in elements."""
    return torch.empty(0, dtype=dtype).set_(storage, offset, shape, strides)


class SharedBuffer:
    """One sealed memfd, mapped here; `number` names it on the wire, `fd` is what the child maps.

    Raises `OSError` when the kernel has no memory to give.
    """

    def __init__(self, capacity: int) -> None:
        self.number = next(_numbers)
        self.size = -(-(HEAD + max(capacity, 1) + TAIL) // _PAGE) * _PAGE
        self.fd = os.memfd_create("kbench", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, self.size)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEALS)
            self._bytes = torch.frombuffer(_map(self.fd, self.size), dtype=torch.uint8)
        except BaseException:
            os.close(self.fd)
            raise
        self._address = self._bytes.data_ptr()
        self.storage = self._bytes.untyped_storage()
        self.used = -1

    @property
    def capacity(self) -> int:
        """Bytes of data for which there is room."""
        return self.size - HEAD - TAIL

    @property
    def address(self) -> int:
        """Of the first data byte, in the grader."""
        return self._address + HEAD

    @property
    def data(self) -> torch.Tensor:
        """The data bytes, shared."""
        return self._bytes[HEAD : HEAD + self.used]

    def arrange(self, used: int) -> None:
        """Make room for `used` bytes of data: guards are written where they are not yet."""
        if used == self.used:
            return
        if used > self.capacity:
            raise ValueError(f"{used} bytes do not fit into {self.capacity}")
        self.used = used
        self._write_guards()

    def _write_guards(self) -> None:
        end = HEAD + self.used
        self._bytes[:HEAD] = _pattern[:HEAD]
        tail = min(self.size - end, _pattern.numel() - HEAD)
        self._bytes[end : end + tail] = _pattern[HEAD : HEAD + tail]

    def overran(self) -> bool:
        """Whether a guard was written since `arrange`; if so, it is restored."""
        end = HEAD + self.used
        tail = min(self.size - end, _pattern.numel() - HEAD)
        base = _pattern.data_ptr()
        if same_bytes(self._address, base, HEAD) and same_bytes(self._address + end, base + HEAD, tail):
            return False
        self._write_guards()
        return True

    def tensor(
        self, dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, begin: int = 0
    ) -> torch.Tensor:
        """The shared data, from the byte `begin` on, as a tensor, in the grader."""
        return tensor_over(self.storage, dtype, shape, strides, (HEAD + begin) // dtype.itemsize + offset)

    def close(self) -> None:
        """Give the descriptor back; the mapping goes with the last tensor over it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


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
