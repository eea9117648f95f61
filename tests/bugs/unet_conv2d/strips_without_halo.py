# verdict: wrong|nonfinite
# Images of more than 32 rows of output go in strips, whose edges see zeros instead of the neighbouring strip's rows.

import torch
import torch.nn.functional as F

STRIP = 32


def unet_conv2d(x, weight, bias, stride, padding):
    padded = F.pad(x.float(), (padding,) * 4)
    k, strips = weight.shape[-1], []
    for begin in range(0, (padded.shape[2] - k) // stride + 1, STRIP):
        rows = min(STRIP, (padded.shape[2] - k) // stride + 1 - begin)
        first, beyond = begin * stride, (begin + rows - 1) * stride + k
        strip = padded[:, :, first:beyond].clone()
        if begin + rows < (padded.shape[2] - k) // stride + 1:
            strip[:, :, rows * stride :] = 0
        strips.append(F.conv2d(strip, weight.float(), bias.float(), stride))
    return torch.cat(strips, 2).to(x.dtype)
