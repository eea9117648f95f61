# verdict: wrong
# The weight's gradient is that of the first image.

import torch.nn.functional as F


def unet_linear(x, weight, bias):
    return F.linear(x, weight, bias)


def backward(cotangent, x, weight, bias, y):
    by_weight = cotangent[:1].flatten(0, 1).T @ x[:1].flatten(0, 1)
    return cotangent @ weight, by_weight, cotangent.sum((0, 1))
