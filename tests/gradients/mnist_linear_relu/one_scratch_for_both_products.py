# verdict: wrong|nonfinite
# Two products, one scratch buffer: the first gradient is overwritten by the second.

import torch
import torch.nn.functional as F


def mnist_linear_relu(x, weight, bias):
    return F.linear(x, weight, bias).relu()


def backward(cotangent, x, weight, bias, y):
    down = cotangent * (y > 0)
    scratch = torch.empty(max(x.numel(), weight.numel()), dtype=x.dtype)
    by_input, by_weight = (scratch[: each.numel()].view(each.shape) for each in (x, weight))
    by_input.copy_(down @ weight)
    by_weight.copy_(down.T @ x)
    return by_input, by_weight, down.sum(0)
