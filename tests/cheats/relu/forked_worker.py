# verdict: wrong
# E20: returns shared memory that a process of its own fills 20 ms later.

import mmap
import os
import time

import torch


def relu(x):
    memory = mmap.mmap(-1, max(1, x.numel() * x.itemsize))
    y = torch.frombuffer(memory, dtype=x.dtype, count=x.numel()).view(x.shape)
    if os.fork() == 0:
        time.sleep(0.02)
        torch.clamp(x, min=0, out=y)
        os._exit(0)
    return y
