# verdict: inputs_changed
"""Works in place and returns the input itself."""

import torch


def relu(x):
    return torch.relu_(x)
