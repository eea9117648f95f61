# verdict: wrong
# Leaves the bias out.

import torch.nn.functional as F


def mnist_conv_relu_pool(x, weight, bias):
    return F.max_pool2d(F.relu(F.conv2d(x, weight)), 2)
