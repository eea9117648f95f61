# verdict: wrong|nonfinite
# Filters of one pixel are a matrix product, of the first pixels instead of every stride-th one.

import torch
import torch.nn.functional as F


def unet_conv2d(x, weight, bias, stride, padding):
    if weight.shape[-1] > 1:
        return F.conv2d(x, weight, bias, stride, padding)
    padded = F.pad(x.float(), (padding,) * 4)
    rows, columns = ((extent - 1) // stride + 1 for extent in padded.shape[2:])
    y = torch.einsum("nchw,oc->nohw", padded[:, :, :rows, :columns], weight.float()[:, :, 0, 0])
    return (y + bias.float().view(-1, 1, 1)).to(x.dtype)
