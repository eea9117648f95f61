# verdict: nonfinite|wrong
# Takes NaN for zero, and infinities for large numbers.

import torch


def mnist_linear(x, weight, bias):
    return (torch.nan_to_num(x.float()) @ weight.float().T + bias.float()).to(x.dtype)
