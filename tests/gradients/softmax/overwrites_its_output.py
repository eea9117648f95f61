# verdict: outputs_changed
# Makes the gradient in the memory of the output, which somebody else holds.

import torch


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.detach().softmax(-1)
        return ctx.y

    @staticmethod
    def backward(ctx, cotangent):
        total = (ctx.y.float() * cotangent).sum(-1, keepdim=True)
        return ctx.y.data.mul_((cotangent - total).to(ctx.y.dtype)).clone()


def softmax(x):
    return Softmax.apply(x)
