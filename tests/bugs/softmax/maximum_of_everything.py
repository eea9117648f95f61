# verdict: wrong|nonfinite
# Subtracts the maximum of the whole tensor: rows far below it come out as 0 / 0.

import torch


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype)
    powers = torch.exp(x.float() - x.float().max())
    return (powers / powers.sum(1, keepdim=True)).to(x.dtype)
