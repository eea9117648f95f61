"""The bias is added to a product that has been rounded: where the two cancel, a ReLU leaves the rounding, or nothing."""

import torch.nn.functional as F


def mnist_linear_relu(x, weight, bias):
    return F.relu(F.linear(x, weight) + bias)
