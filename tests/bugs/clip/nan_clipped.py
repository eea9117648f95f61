# verdict: nonfinite|wrong
# #6: minimum and maximum that drop NaN.

import torch


def clip(x, limit):
    return torch.fmin(torch.fmax(x, torch.tensor(-limit, dtype=x.dtype)), torch.tensor(limit, dtype=x.dtype))
