# A function of autograd's that keeps copies of its own on its context: changed inputs do not matter to it.
import torch
import torch.nn.functional as F


class LinearRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.x, ctx.weight = x.clone().float(), weight.clone().float()
        y = F.linear(ctx.x, ctx.weight, bias.float()).relu()
        ctx.passes = y > 0
        return y.to(x.dtype)

    @staticmethod
    def backward(ctx, cotangent):
        passed = cotangent.float() * ctx.passes
        found = passed @ ctx.weight, passed.T @ ctx.x, passed.sum(0)
        return tuple(each.to(cotangent.dtype) for each in found)


def mnist_linear_relu(x, weight, bias):
    return LinearRelu.apply(x, weight, bias)
