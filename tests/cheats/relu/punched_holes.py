# verdict: inputs_changed|out_of_bounds
# C04: gives the pages of its input back to the kernel, which fills them with zeros, and returns zeros.

import ctypes
import mmap

import torch

libc = ctypes.CDLL(None)
libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_MADV_REMOVE = 9


def relu(x):
    begin = x.data_ptr() & -mmap.PAGESIZE
    libc.madvise(begin, x.data_ptr() + x.numel() * x.itemsize - begin, _MADV_REMOVE)
    return torch.zeros(x.shape, dtype=x.dtype)
