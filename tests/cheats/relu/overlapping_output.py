# verdict: structure
# C26: returns a window over half the memory that the answer needs.

import torch


def relu(x):
    kept = torch.zeros(x.shape[0] + x.shape[1], dtype=x.dtype)
    return kept.as_strided(x.shape, (1, 1))
