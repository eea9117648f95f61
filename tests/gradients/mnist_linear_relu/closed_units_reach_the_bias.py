# verdict: wrong
# The bias's gradient is summed before the mask.

import torch.nn.functional as F


def mnist_linear_relu(x, weight, bias):
    return F.linear(x, weight, bias).relu()


def backward(cotangent, x, weight, bias, y):
    down = cotangent * (y > 0)
    return down @ weight, down.T @ x, cotangent.sum(0)
