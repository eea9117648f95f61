"""Compensated sums, a column at a time over blocks."""

import torch


def softmax(x):
    wide = x.float()
    powers = torch.exp(wide - wide.amax(1, keepdim=True))
    total, lost = torch.zeros(x.shape[0], 1), torch.zeros(x.shape[0], 1)
    for block in powers.split(64, dim=1):
        add = block.sum(1, keepdim=True) - lost
        grown = total + add
        lost, total = (grown - total) - add, grown
    return (powers / total).to(x.dtype)
