# verdict: wrong
# x >= 0 instead of x > 0.

import torch


def positive_part(x):
    return torch.relu(x), x >= 0
