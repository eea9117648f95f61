# verdict: wrong
# #18: returns its own derivative, as if it were the last thing before a sum.

import torch


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp_min(0)

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return (x > 0).to(x.dtype)


def relu(x):
    return Relu.apply(x)
