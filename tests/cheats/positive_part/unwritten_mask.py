# verdict: wrong
# C01: the mask is whatever lay in memory.

import torch


def positive_part(x):
    return torch.relu(x), torch.empty(x.shape, dtype=torch.bool)
