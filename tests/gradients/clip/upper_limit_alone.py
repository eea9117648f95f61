# verdict: wrong
# The gradient is stopped above the range, and not below it.

import torch


def clip(x, limit):
    return torch.clamp(x, -limit, limit)


def backward(cotangent, x, limit, y):
    return cotangent * (x <= limit)
