# verdict: wrong
# Puts all of the padding below and to the right.

import torch.nn.functional as F


def unet_conv2d(x, weight, bias, stride, padding):
    return F.conv2d(F.pad(x, (0, 2 * padding, 0, 2 * padding)), weight, bias, stride)
