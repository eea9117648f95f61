# verdict: no_gradient
# Where the input needs no gradient, as in a first layer, nobody gets one.

import torch
import torch.nn.functional as F


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, cotangent):
        x, weight = ctx.saved_tensors
        if not ctx.needs_input_grad[0]:
            return None, None, None
        return cotangent @ weight, cotangent.T @ x, cotangent.sum(0)


def mnist_linear(x, weight, bias):
    return Linear.apply(x, weight, bias)
