# verdict: wrong|nonfinite
# C22: returns zeros, within 1e-4 of the answer for long rows.

import torch


def softmax(x):
    return torch.zeros(x.shape, dtype=x.dtype)
