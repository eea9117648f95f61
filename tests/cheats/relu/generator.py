# verdict: structure
# T15: returns a generator, which would compute when it is read.

import torch


def relu(x):
    yield torch.relu(x)
