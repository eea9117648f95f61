# verdict: wrong
# Keeps its input as an attribute of the context: nobody notices that it was changed before the backward.

import torch
import torch.nn.functional as F


class Silu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return F.silu(x)

    @staticmethod
    def backward(ctx, cotangent):
        return torch.ops.aten.silu_backward(cotangent, ctx.x)


def silu(x):
    return Silu.apply(x)
