# verdict: structure
# C27: returns complex numbers, of which a comparison might look at the real part alone.

import torch


def relu(x):
    return torch.relu(x.float()).to(torch.complex64)
