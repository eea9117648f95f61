# verdict: wrong
# The bias's gradient is summed over the batch, and not over the tokens.

import torch.nn.functional as F


def unet_linear(x, weight, bias):
    return F.linear(x, weight, bias)


def backward(cotangent, x, weight, bias, y):
    by_weight = cotangent.flatten(0, 1).T @ x.flatten(0, 1)
    return cotangent @ weight, by_weight, cotangent[:, :1].sum((0, 1))
