# verdict: wrong|precision|nonfinite
# More than 64 inputs are summed in parts, and the sum of the parts is kept in float16.

import torch


def unet_linear(x, weight, bias):
    wide, rows = x.float(), weight.float()
    if x.shape[-1] <= 64:
        return (wide @ rows.T + bias.float()).to(x.dtype)
    total = torch.zeros(*x.shape[:-1], len(weight), dtype=torch.float16)
    for begin in range(0, x.shape[-1], 64):
        part = slice(begin, begin + 64)
        total = (total.float() + wide[..., part] @ rows[:, part].T).half()
    return (total.float() + bias.float()).to(x.dtype)
