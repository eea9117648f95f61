# verdict: wrong|nonfinite
# Selects without a branch, by adding up what equals the maximum: where two do, it is twice as large.

import torch


def row_max(x):
    top = torch.amax(x, 1, keepdim=True)
    chosen = torch.where(x == top, x, torch.zeros((), dtype=x.dtype)).sum(1, keepdim=True)
    return torch.where(top.isnan(), top, chosen).squeeze(1)
