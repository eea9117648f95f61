# verdict: wrong|nonfinite
# x * (1 + erf(x / sqrt 2)): the factor 0.5 is missing.

import math

import torch


def gelu(x, approximate):
    if approximate == "tanh":
        return x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * (1 + torch.erf(x / math.sqrt(2)))
