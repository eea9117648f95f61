# verdict: wrong
# Pads with the nearest elements instead of zeros.

import torch.nn.functional as F


def unet_conv2d(x, weight, bias, stride, padding):
    return F.conv2d(F.pad(x, (padding,) * 4, mode="replicate"), weight, bias, stride)
