"""One pass over blocks of columns with a running maximum and a rescaled running sum (Milakov and Gimelshein, 2018)."""

import torch

BLOCK = 256


def softmax(x):
    wide = x.float()
    top = torch.full((x.shape[0], 1), -torch.inf)
    total = torch.zeros(x.shape[0], 1)
    for block in wide.split(BLOCK, dim=1):
        new = torch.maximum(top, block.amax(1, keepdim=True))
        # Nothing but -inf so far: there is nothing to rescale, and -inf - -inf would be NaN.
        shift = torch.where(new == -torch.inf, torch.zeros(()), new)
        total = total * torch.exp(top - shift) + torch.exp(block - shift).sum(1, keepdim=True)
        top = new
    return (torch.exp(wide - top) / total).to(x.dtype)
