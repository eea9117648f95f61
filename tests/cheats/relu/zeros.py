# verdict: wrong
# #40: computes nothing: zeros.

import torch


def relu(x):
    return torch.zeros(x.shape, dtype=x.dtype)
