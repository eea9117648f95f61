# verdict: wrong
# The bias's gradient is summed over images and columns, and over the first row of windows alone.

import torch
import torch.nn.functional as F


class Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        return x + bias[:, None, None]

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent, cotangent[:, :, :2].sum((0, 2, 3))


def mnist_conv_relu_pool(x, weight, bias):
    return F.max_pool2d(Added.apply(F.conv2d(x, weight), bias).relu(), 2)
