# verdict: wrong
"""Computes in bfloat16 and widens the result."""

import torch


def softmax(x):
    return torch.softmax(x.bfloat16(), 1).to(x.dtype)
