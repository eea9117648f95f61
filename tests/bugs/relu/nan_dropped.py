# verdict: nonfinite|wrong
# #6: takes a maximum that drops NaN.

import torch


def relu(x):
    return torch.where(x > 0, x, torch.zeros((), dtype=x.dtype))
