# verdict: structure
"""Returns another dtype than the input's."""

import torch


def relu(x):
    return torch.relu(x).double()
