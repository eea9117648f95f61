# verdict: wrong
# Keeps the mask per shape: the first input of each decides for all.

import torch
import torch.nn.functional as F

_masks = {}


def leaky_relu(x, slope):
    _masks.setdefault(tuple(x.shape), x > 0)
    return F.leaky_relu(x, slope)


def backward(cotangent, x, slope, y):
    return torch.where(_masks[tuple(x.shape)], cotangent, cotangent * slope)
