# verdict: no_gradient
# Adds the weight's gradient to its attribute and returns none, so that only one way of asking finds it.

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
        by_weight = cotangent.flatten(0, 1).T @ x.flatten(0, 1)
        weight.grad = by_weight if weight.grad is None else weight.grad + by_weight
        return cotangent @ weight, None, cotangent.sum((0, 1))


def unet_linear(x, weight, bias):
    return Linear.apply(x, weight, bias)
