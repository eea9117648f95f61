"""Returns rows that lie apart in a storage larger than the output."""

import torch


def relu(x):
    rows, columns = x.shape
    padded = torch.empty(rows, columns + 8, dtype=x.dtype)
    y = padded[:, 3 : 3 + columns]
    torch.clamp(x, min=0, out=y)
    return y
