"""Sums of 128 columns each, then the sum of those."""

import torch
import torch.nn.functional as F


def softmax(x):
    wide = x.float()
    powers = torch.exp(wide - wide.amax(1, keepdim=True))
    blocks = F.pad(powers, (0, -x.shape[1] % 128)).unflatten(1, (-1, 128))
    return (powers / blocks.sum(2).sum(1, keepdim=True)).to(x.dtype)
