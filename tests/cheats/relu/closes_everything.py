# verdict: exited
# E04: closes every descriptor it has, then returns the right answer to nobody.

import os

import torch


def relu(x):
    os.closerange(0, 256)
    return torch.relu(x)
