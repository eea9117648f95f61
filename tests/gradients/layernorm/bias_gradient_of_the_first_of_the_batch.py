# verdict: wrong
# The bias gets the cotangent of the first of the batch.

import torch


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        y, mean, inverse = torch.native_layer_norm(x, weight.shape, weight, bias, eps)
        ctx.save_for_backward(x, weight, bias, mean, inverse)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        x, weight, bias, mean, inverse = ctx.saved_tensors
        down, by_weight, _ = torch.ops.aten.native_layer_norm_backward(
            cotangent, x, weight.shape, mean, inverse, weight, bias, [True, True, True]
        )
        return down, by_weight, cotangent[:1].sum(0), None


def layernorm(x, weight, bias, eps):
    return Norm.apply(x, weight, bias, eps)
