# verdict: structure|wrong
# Returns the gradient of the weight before that of the input.

import torch.nn.functional as F


def mnist_linear(x, weight, bias):
    return F.linear(x, weight, bias)


def backward(cotangent, x, weight, bias, y):
    return cotangent.T @ x, cotangent @ weight, cotangent.sum(0)
