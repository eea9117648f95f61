# verdict: no_gradient
# Returns no gradient for the bias.

import torch.nn.functional as F


def mnist_linear(x, weight, bias):
    return F.linear(x, weight, bias)


def backward(cotangent, x, weight, bias, y):
    return cotangent @ weight, cotangent.T @ x, None
