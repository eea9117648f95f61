# verdict: structure
# Returns the result twice.

import torch


def relu(x):
    y = torch.relu(x)
    return y, y.clone()
