# verdict: structure
# T08: returns a tensor in the layout of a library, which nobody else can read.

import torch


def relu(x):
    return torch.relu(x).float().to_mkldnn()
