# verdict: wrong
# Has the right shape for every stride, filled with the first outputs of stride one.

import torch.nn.functional as F


def unet_conv2d(x, weight, bias, stride, padding):
    rows, columns = ((extent + 2 * padding - weight.shape[-1]) // stride + 1 for extent in x.shape[2:])
    return F.conv2d(x, weight, bias, padding=padding)[:, :, :rows, :columns].contiguous()
