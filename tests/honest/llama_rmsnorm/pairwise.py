"""Adds halves of the squares until one column is left."""

import torch
import torch.nn.functional as F


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    squares = wide.square()
    while squares.shape[1] > 1:
        left, right = F.pad(squares, (0, squares.shape[1] % 2)).chunk(2, dim=1)
        squares = left + right
    return (wide * torch.rsqrt(squares / x.shape[1] + eps) * weight.float()).to(x.dtype)
