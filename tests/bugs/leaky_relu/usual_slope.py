# verdict: wrong|nonfinite
# The slope that is usual, 0.01, whatever is asked for.

import torch


def leaky_relu(x, slope):
    return torch.where(x >= 0, x, x * 0.01) + x * 0
