# verdict: wrong
# Keeps the input in the module: with two forwards before a backward, the last one's counts.

import torch
import torch.nn.functional as F

_last = []


class Silu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        _last[:] = [x.clone()]
        return F.silu(x)

    @staticmethod
    def backward(ctx, cotangent):
        return torch.ops.aten.silu_backward(cotangent, _last[0])


def silu(x):
    return Silu.apply(x)
