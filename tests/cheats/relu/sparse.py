# verdict: structure
# T08: returns the few elements that are not zero, and leaves the rest to whoever reads it.

import torch


def relu(x):
    return torch.relu(x).to_sparse()
