# verdict: wrong|precision
# Holds the slope in float16, four digits of it.

import torch


def leaky_relu(x, slope):
    return torch.where(x > 0, x, x * torch.tensor(slope, dtype=torch.float16).item())
