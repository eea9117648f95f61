# verdict: wrong|raised|nonfinite
# How many rows there are is what the last forward left in the module: those beyond stay zero where a smaller one came
# between.

import torch

sizes = {}


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        sizes["rows"] = len(x)
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        (y,) = ctx.saved_tensors
        gradient, rows = torch.zeros_like(y), sizes["rows"]
        g, p = cotangent[:rows].float(), y[:rows].float()
        gradient[:rows] = p * (g - (g * p).sum(-1, keepdim=True))
        return gradient


def softmax(x):
    return Softmax.apply(x)
