# verdict: wrong|nonfinite
# The approximation without its cubic term.

import math

import torch
import torch.nn.functional as F


def gelu(x, approximate):
    if approximate == "none":
        return F.gelu(x)
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * x))
