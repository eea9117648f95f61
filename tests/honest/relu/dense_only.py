"""Refuses every layout but the dense one, by an exception."""

import torch


def relu(x):
    if not x.is_contiguous():
        raise ValueError("only dense tensors")
    return torch.relu(x)
