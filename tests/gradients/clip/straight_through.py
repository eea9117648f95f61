# verdict: wrong
# A straight-through estimator: the gradient passes outside of the range as well.

import torch


def clip(x, limit):
    return torch.clamp(x, -limit, limit)


def backward(cotangent, x, limit, y):
    return cotangent.clone()
