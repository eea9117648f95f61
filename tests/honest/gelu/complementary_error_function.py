"""x/2 * erfc(-x / sqrt 2), which is exact far out on the left too."""

import math

import torch


def gelu(x, approximate):
    if approximate == "tanh":
        return torch.nn.functional.gelu(x, approximate="tanh")
    return 0.5 * x * torch.erfc(-x / math.sqrt(2))
