# verdict: structure
# Moves its window by one element always.

import torch.nn.functional as F


def unet_conv2d(x, weight, bias, stride, padding):
    return F.conv2d(x, weight, bias, padding=padding)
