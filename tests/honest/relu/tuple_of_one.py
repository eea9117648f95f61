"""Returns a tuple of its one output."""

import torch


def relu(x):
    return (torch.relu(x),)
