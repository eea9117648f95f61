# verdict: wrong
# Returns zeros at once where there are no inputs to sum, and forgets that there is a bias.

import torch


def unet_linear(x, weight, bias):
    if x.shape[-1] == 0:
        return torch.zeros(*x.shape[:-1], len(bias), dtype=x.dtype)
    return (x.float() @ weight.float().T + bias.float()).to(x.dtype)
