# verdict: wrong
# Rounds the operands of the weight's gradient to bfloat16.

import torch
import torch.nn.functional as F


class LinearRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        y = F.linear(x, weight, bias).relu()
        ctx.save_for_backward(x, weight, y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        x, weight, y = ctx.saved_tensors
        down = cotangent * (y > 0)
        return down @ weight, (down.T.bfloat16() @ x.bfloat16()).to(x.dtype), down.sum(0)


def mnist_linear_relu(x, weight, bias):
    return LinearRelu.apply(x, weight, bias)
