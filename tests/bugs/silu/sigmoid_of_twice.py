# verdict: wrong|nonfinite
# x * sigmoid(2x).

import torch


def silu(x):
    wide = x.float()
    return (wide * torch.sigmoid(2 * wide)).to(x.dtype)
