# verdict: wrong
# #14: launches N // 64 blocks: the elements of the last, partial block stay zero.

import torch


def relu(x):
    flat = x.reshape(-1)
    y = torch.zeros_like(flat)
    whole = flat.numel() // 64 * 64
    y[:whole] = torch.relu(flat[:whole])
    return y.reshape(x.shape)
