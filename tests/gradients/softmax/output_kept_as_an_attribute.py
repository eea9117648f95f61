# verdict: wrong|nonfinite
# The output is an attribute of the context: what happens to it in place before the backward is not noticed.
import torch


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = torch.softmax(x.float(), -1).to(x.dtype)
        return ctx.y

    @staticmethod
    def backward(ctx, cotangent):
        y, wide = ctx.y.float(), cotangent.float()
        return (y * (wide - (y * wide).sum(-1, keepdim=True))).to(cotangent.dtype)


def softmax(x):
    return Softmax.apply(x)
