# verdict: wrong
# Convolves as mathematics does, with mirrored filters; torch correlates.

import torch.nn.functional as F


def mnist_conv_relu_pool(x, weight, bias):
    return F.max_pool2d(F.relu(F.conv2d(x, weight.flip(-1, -2), bias)), 2)
