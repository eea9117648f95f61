# verdict: structure|raised|wrong
# T08: returns zeros of the kind that have no memory at all.

import torch


def relu(x):
    return torch._efficientzerotensor(x.shape, dtype=x.dtype)
