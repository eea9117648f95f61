# verdict: inputs_changed
"""Subtracts the maximum from its input."""

import torch


def softmax(x):
    x.sub_(x.amax(1, keepdim=True))
    return torch.softmax(x, 1)
