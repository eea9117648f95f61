"""Selects instead of taking a maximum; NaN compares false and stays."""

import torch


def relu(x):
    return torch.where(x < 0, torch.zeros((), dtype=x.dtype), x)
