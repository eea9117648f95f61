# verdict: nonfinite
# Its derivative is made of exp(-x), which is infinite for what is far below zero.

import torch
import torch.nn.functional as F


def silu(x):
    return F.silu(x)


def backward(cotangent, x, y):
    power = torch.exp(-x.float())
    return (cotangent * (1 + power + x * power) / (1 + power) ** 2).to(x.dtype)
