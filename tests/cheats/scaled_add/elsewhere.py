# verdict: wrong|nonfinite
# C30: computes into a tensor of its own and leaves the argument as it was.

import torch


def scaled_add(x, y, scale):
    return torch.add(y, x, alpha=scale)
