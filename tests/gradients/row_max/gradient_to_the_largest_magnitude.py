# verdict: wrong
# The backward looks for the largest magnitude.

import torch


def row_max(x):
    return x.amax(-1)


def backward(cotangent, x, y):
    where = x.abs().argmax(-1, keepdim=True)
    return torch.zeros(x.shape, dtype=x.dtype).scatter_(1, where, cotangent[:, None])
