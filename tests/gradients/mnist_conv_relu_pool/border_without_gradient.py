# verdict: wrong
# The input's gradient is a convolution without padding: its border, as wide as the filter, stays zero.

import torch
import torch.nn.functional as F


class Border(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, width):
        ctx.width = width
        return x.clone()

    @staticmethod
    def backward(ctx, cotangent):
        down, width = torch.zeros_like(cotangent), ctx.width
        inside = (..., slice(width, cotangent.shape[2] - width), slice(width, cotangent.shape[3] - width))
        down[inside] = cotangent[inside]
        return down, None


def mnist_conv_relu_pool(x, weight, bias):
    return F.max_pool2d(F.conv2d(Border.apply(x, weight.shape[-1] - 1), weight, bias).relu(), 2)
