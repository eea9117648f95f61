# verdict: structure
# C27: returns another dtype than the input's.

import torch


def relu(x):
    return torch.relu(x).double()
