# verdict: wrong
# Its backward knows only the usual slope.

import torch
import torch.nn.functional as F


def leaky_relu(x, slope):
    return F.leaky_relu(x, slope)


def backward(cotangent, x, slope, y):
    return torch.where(x > 0, cotangent, cotangent * 0.01)
