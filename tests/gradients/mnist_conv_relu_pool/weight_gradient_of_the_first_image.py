# verdict: wrong
# The weight's gradient is that of the first image.

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
        by_weight = torch.nn.grad.conv2d_weight(x[:1], weight.shape, cotangent[:1])
        return F.conv_transpose2d(cotangent, weight), by_weight, cotangent.sum((0, 2, 3))


def mnist_conv_relu_pool(x, weight, bias):
    return F.max_pool2d(Convolution.apply(x, weight, bias).relu(), 2)
