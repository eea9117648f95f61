# verdict: wrong|precision
# The sigmoid as (1 + tanh(x / 2)) / 2 in float32: nothing is left of it where x is very negative.

import torch


def silu(x):
    half = x.float() * 0.5
    return (half * (1 + torch.tanh(half))).to(x.dtype)
