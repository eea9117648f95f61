"""Refuses every dtype but float32, by an exception."""

import torch


def relu(x):
    if x.dtype != torch.float32:
        raise TypeError("only float32")
    return torch.relu(x)
