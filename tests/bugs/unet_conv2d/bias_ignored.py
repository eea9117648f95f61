# verdict: wrong
# Leaves the bias out.

import torch.nn.functional as F


def unet_conv2d(x, weight, bias, stride, padding):
    return F.conv2d(x, weight, None, stride, padding)
