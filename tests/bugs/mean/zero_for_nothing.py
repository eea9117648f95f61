# verdict: nonfinite
# #29: the mean of nothing is NaN, not zero.

import torch


def mean(x):
    return x.float().mean().to(x.dtype) if x.numel() else torch.zeros((), dtype=x.dtype)
