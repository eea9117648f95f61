# verdict: wrong
# Recomputes the sign in the backward, and forgets the bias there.

import torch.nn.functional as F


def mnist_linear_relu(x, weight, bias):
    return F.linear(x, weight, bias).relu()


def backward(cotangent, x, weight, bias, y):
    down = cotangent * (x @ weight.T > 0)
    return down @ weight, down.T @ x, down.sum(0)
