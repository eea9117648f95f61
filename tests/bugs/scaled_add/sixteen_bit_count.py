# verdict: wrong
# Counts elements in sixteen bits: of more than 65,535 only what is left after the overflow is updated.

import torch


def scaled_add(x, y, scale):
    done = torch.arange(y.numel()).view(y.shape) < y.numel() % 65536
    y.copy_(torch.where(done, y + scale * x, y))
