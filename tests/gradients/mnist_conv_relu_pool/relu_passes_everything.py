# verdict: wrong
# The backward forgets the ReLU: what was below zero has a gradient.

import torch
import torch.nn.functional as F


class Open(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.relu()

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent


def mnist_conv_relu_pool(x, weight, bias):
    return F.max_pool2d(Open.apply(F.conv2d(x, weight, bias)), 2)
