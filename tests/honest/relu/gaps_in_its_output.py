"""Returns the middle of a wider buffer: rows of its output have gaps between them."""

import torch


def relu(x):
    wide = torch.full((x.shape[0], x.shape[1] + 8), 7.0, dtype=x.dtype)
    torch.clamp(x, min=0, out=wide[:, 4:-4])
    return wide[:, 4:-4]
