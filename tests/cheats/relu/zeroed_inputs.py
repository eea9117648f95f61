# verdict: inputs_changed
# C04: zeros the inputs, for a reference that would run on them afterwards, and returns zeros.

import torch


def relu(x):
    x.zero_()
    return torch.zeros(x.shape, dtype=x.dtype)
