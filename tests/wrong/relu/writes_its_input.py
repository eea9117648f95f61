# verdict: inputs_changed
"""Works in place and returns a copy."""

import torch


def relu(x):
    return torch.relu_(x).clone()
