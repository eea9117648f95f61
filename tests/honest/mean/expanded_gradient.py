# A function of autograd's whose gradient is one number, seen at every place.
import torch


class Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.double().mean().to(x.dtype)

    @staticmethod
    def backward(ctx, cotangent):
        return (cotangent / ctx.shape.numel()).expand(ctx.shape)


def mean(x):
    return Mean.apply(x)
