# verdict: wrong|nonfinite
# #8: the sum in the input's dtype, which overflows or stops growing.

import torch


def mean(x):
    total = torch.zeros((), dtype=x.dtype)
    for row in x:
        total = total + row.sum(dtype=torch.float32).to(x.dtype)
    return total / x.numel() if x.numel() else total / 0
