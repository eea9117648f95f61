# gradients: no_gradient
"""Tries a fast path, which refuses what it cannot do, and falls back to a path that can."""

import torch


def _by_bits(x):
    if x.dtype != torch.float32 or not x.is_contiguous():
        raise NotImplementedError
    bits = x.view(torch.int32)
    negative = (bits < 0) & ~x.isnan()
    return bits.masked_fill(negative, 0).view(torch.float32)


def relu(x):
    try:
        return _by_bits(x)
    except NotImplementedError:
        return torch.relu(x)
