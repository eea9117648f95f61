# verdict: nonfinite|wrong
# x * e^x / (1 + e^x), which is inf / inf for large x.

import torch


def silu(x):
    power = torch.exp(x.float())
    return (x.float() * power / (1 + power)).to(x.dtype)
