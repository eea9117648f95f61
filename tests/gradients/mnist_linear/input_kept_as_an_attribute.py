# verdict: wrong|nonfinite
# The weight is saved, the input an attribute of the context: that it was changed before the backward is not noticed.
import torch


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(weight)
        ctx.x = x
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, cotangent):
        (weight,) = ctx.saved_tensors
        return cotangent.mm(weight), cotangent.t().mm(ctx.x), cotangent.sum(0)


def mnist_linear(x, weight, bias):
    return Linear.apply(x, weight, bias)
