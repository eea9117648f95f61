"""A custom autograd function, applied."""

import torch


class Relu(torch.autograd.Function):
    """max(x, 0), with a backward of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp_min(0)

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return cotangent * (x > 0)


def relu(x):
    return Relu.apply(x)
