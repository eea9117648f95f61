"""Torch's own convolution with channels as the innermost dimension, in the result too."""

import torch
import torch.nn.functional as F


def unet_conv2d(x, weight, bias, stride, padding):
    images, filters = (each.contiguous(memory_format=torch.channels_last) for each in (x, weight))
    return F.conv2d(images, filters, bias, stride, padding)
