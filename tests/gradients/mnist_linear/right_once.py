# verdict: wrong
# The second backward of a process, and all that follow, have the sign of a descent step.

import torch.nn.functional as F

_calls = []


def mnist_linear(x, weight, bias):
    return F.linear(x, weight, bias)


def backward(cotangent, x, weight, bias, y):
    _calls.append(len(x))
    sign = 1 if len(_calls) == 1 else -1
    return sign * (cotangent @ weight), sign * (cotangent.T @ x), sign * cotangent.sum(0)
