# verdict: wrong|nonfinite
# A grid of at most 1024 blocks, whose loop over further rows advances what it writes, but not what it reads.

import torch


def row_max(x):
    return torch.amax(x, 1)[torch.arange(x.shape[0]) % 1024]
