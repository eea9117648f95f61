# verdict: structure
# Returns nested lists of numbers.

import torch


def relu(x):
    return torch.relu(x).tolist()
