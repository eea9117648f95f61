# verdict: wrong|nonfinite|crashed
# C01: returns a tensor over memory that it has freed.

import ctypes

import torch

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p


def relu(x):
    size = max(1, x.numel() * x.itemsize)
    place = libc.malloc(ctypes.c_size_t(size))
    memory = (ctypes.c_char * size).from_address(place)
    y = torch.frombuffer(memory, dtype=x.dtype, count=x.numel()).view(x.shape)
    torch.clamp(x, min=0, out=y)
    libc.free(ctypes.c_void_p(place))
    return y
