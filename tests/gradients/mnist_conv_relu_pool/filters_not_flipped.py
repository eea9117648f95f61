# verdict: wrong
# The input's gradient is made with the filters as they are, which must be turned round for it.

import torch
import torch.nn.functional as F


class Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return F.conv2d(x, weight, bias)

    @staticmethod
    def backward(ctx, cotangent):
        x, weight = ctx.saved_tensors
        by_weight = torch.nn.grad.conv2d_weight(x, weight.shape, cotangent)
        return F.conv_transpose2d(cotangent, weight.flip(2, 3)), by_weight, cotangent.sum((0, 2, 3))


def mnist_conv_relu_pool(x, weight, bias):
    return F.max_pool2d(Convolution.apply(x, weight, bias).relu(), 2)
