# verdict: wrong|nonfinite
# C22: returns 1 / columns everywhere, within 1e-4 of the answer for long rows.

import torch


def softmax(x):
    return torch.full(x.shape, 1 / max(1, x.shape[1]), dtype=x.dtype)
