"""Leaves torch for numpy, which has no bfloat16, so it goes through float32 (exact, both ways)."""

import numpy
import torch


def relu(x):
    return torch.from_numpy(numpy.maximum(x.float().numpy(), 0)).to(x.dtype)
