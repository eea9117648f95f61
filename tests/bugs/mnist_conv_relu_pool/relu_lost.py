# verdict: wrong
# Leaves ReLU out: shows only where a whole window is negative.

import torch.nn.functional as F


def mnist_conv_relu_pool(x, weight, bias):
    return F.max_pool2d(F.conv2d(x, weight, bias), 2)
