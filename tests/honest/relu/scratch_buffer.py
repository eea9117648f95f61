"""Keeps a buffer for its intermediate from call to call, and never returns it."""

import torch

_scratch = {}


def relu(x):
    key = (tuple(x.shape), x.dtype)
    if key not in _scratch:
        _scratch[key] = torch.empty(x.shape, dtype=x.dtype)
    negative = _scratch[key]
    torch.clamp(x, max=0, out=negative)
    return torch.where(negative < 0, torch.zeros((), dtype=x.dtype), x)
