# verdict: wrong
# Flushes what is subnormal in the working dtype: in float16 that is all below 6e-5.

import torch


def relu(x):
    y = torch.relu(x)
    return torch.where(y.abs() < torch.finfo(x.dtype).smallest_normal, torch.zeros((), dtype=x.dtype), y)
