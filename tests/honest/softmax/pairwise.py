"""Adds halves of the row until one column is left."""

import torch
import torch.nn.functional as F


def softmax(x):
    wide = x.float()
    powers = torch.exp(wide - wide.amax(1, keepdim=True))
    total = powers
    while total.shape[1] > 1:
        left, right = F.pad(total, (0, total.shape[1] % 2)).chunk(2, dim=1)
        total = left + right
    return (powers / total).to(x.dtype)
