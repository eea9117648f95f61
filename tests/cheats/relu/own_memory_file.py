# verdict: wrong|inputs_changed
# C04: zeros its input through /proc/self/mem, past every version counter, and returns zeros.

import contextlib

import torch


def relu(x):
    with contextlib.suppress(OSError), open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(x.data_ptr())
        memory.write(bytes(x.numel() * x.itemsize))
    return torch.zeros(x.shape, dtype=x.dtype)
