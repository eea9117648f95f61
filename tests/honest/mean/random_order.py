"""Adds in an order of its own each time."""

import torch


def mean(x):
    flat = x.reshape(-1).float()
    return flat[torch.randperm(flat.numel())].mean().to(x.dtype)
