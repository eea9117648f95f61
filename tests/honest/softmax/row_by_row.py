"""A loop over rows, each into a slice of the output."""

import torch


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    for row, out in zip(x, y, strict=True):
        powers = torch.exp(row.float() - row.max().float())
        out.copy_(powers / powers.sum())
    return y
