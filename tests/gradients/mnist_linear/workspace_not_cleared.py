# verdict: wrong|nonfinite
# Adds the weight's gradient to a workspace per shape, which is cleared when it is made and never again.

import torch
import torch.nn.functional as F

_workspaces = {}


def mnist_linear(x, weight, bias):
    return F.linear(x, weight, bias)


def backward(cotangent, x, weight, bias, y):
    key = (tuple(weight.shape), weight.dtype)
    space = _workspaces.setdefault(key, torch.zeros(weight.shape))
    space += cotangent.float().T @ x.float()
    return cotangent @ weight, space.to(weight.dtype), cotangent.sum(0)
