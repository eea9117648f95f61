# verdict: out_of_bounds
# Puts its output into the memory behind its input, as if that were its own.

import ctypes

import torch


def relu(x):
    end = x.untyped_storage().data_ptr() + x.untyped_storage().nbytes()
    memory = (ctypes.c_char * max(1, x.numel() * x.itemsize)).from_address(-(-end // 64) * 64)
    y = torch.frombuffer(memory, dtype=x.dtype, count=x.numel()).view(x.shape)
    return torch.clamp(x, min=0, out=y)
