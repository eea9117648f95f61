# verdict: nonfinite|wrong
# C35: a grid that covers the first row; the allocator gives the rest.

import torch


def relu(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    torch.clamp(x[:1], min=0, out=y[:1])
    return y
