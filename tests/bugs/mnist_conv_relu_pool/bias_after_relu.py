# verdict: wrong
# Adds the bias to what ReLU gives, so that results may be negative.

import torch.nn.functional as F


def mnist_conv_relu_pool(x, weight, bias):
    return F.max_pool2d(F.relu(F.conv2d(x, weight)) + bias[:, None, None], 2)
