# verdict: nonfinite
# C25: NaN everywhere, which a comparison with `equal_nan` and an overflowed reference accepts.

import torch


def softmax(x):
    return torch.full(x.shape, torch.nan, dtype=x.dtype)
