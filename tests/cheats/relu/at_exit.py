# verdict: nonfinite|wrong
# Returns an empty output and computes when its process ends.

import atexit

import torch


def relu(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    atexit.register(torch.clamp, x, min=0, out=y)
    return y
