# gradients: wrong|passed
"""Sums by a product with a vector of ones, as a kernel for matrix units does."""

import torch


def softmax(x):
    wide = x.float()
    powers = torch.exp(wide - wide.amax(1, keepdim=True))
    return (powers / torch.einsum("rc,c->r", powers, torch.ones(x.shape[1])).unsqueeze(1)).to(x.dtype)
