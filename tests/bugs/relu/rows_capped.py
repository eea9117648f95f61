# verdict: wrong
# #15: counts rows in eight bits: rows from 255 on stay zero.

import torch


def relu(x):
    y = torch.zeros(x.shape, dtype=x.dtype)
    y[:255] = torch.relu(x[:255])
    return y
