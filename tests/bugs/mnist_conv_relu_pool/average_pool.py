# verdict: wrong
# Averages a window instead of taking its largest element.

import torch.nn.functional as F


def mnist_conv_relu_pool(x, weight, bias):
    return F.avg_pool2d(F.relu(F.conv2d(x, weight, bias)), 2)
