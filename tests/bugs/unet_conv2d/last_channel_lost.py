# verdict: wrong
# Stops one channel too early.

import torch.nn.functional as F


def unet_conv2d(x, weight, bias, stride, padding):
    whole = max(x.shape[1] - 1, 1)
    return F.conv2d(x[:, :whole], weight[:, :whole], bias, stride, padding)
