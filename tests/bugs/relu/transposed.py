# verdict: structure
# Returns the answer transposed.

import torch


def relu(x):
    return torch.relu(x).t()
