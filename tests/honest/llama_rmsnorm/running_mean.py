"""A running mean of squares over blocks of columns, as Welford keeps it; divides instead of multiplying."""

import torch

BLOCK = 64


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    mean, seen = torch.zeros(x.shape[0], 1), 0
    for block in wide.split(BLOCK, dim=1):
        before, seen = seen, seen + block.shape[1]
        # Weighted, not `mean + (new - mean) * share`: inf - inf would be NaN.
        mean = mean * (before / seen) + block.square().mean(1, keepdim=True) * (block.shape[1] / seen)
    return (wide / torch.sqrt(mean + eps) * weight.float()).to(x.dtype)
