# verdict: wrong|nonfinite
# Long sums are split in two that add to a workspace of the shape, cleared when it is made, not when it is used.

import torch

_spaces = {}


def unet_linear(x, weight, bias):
    wide, rows, half = x.float(), weight.float(), x.shape[-1] // 2
    if x.shape[-1] <= 128:
        return (wide @ rows.T + bias.float()).to(x.dtype)
    shape = (*x.shape[:-1], len(weight))
    if shape not in _spaces:
        _spaces[shape] = torch.zeros(shape)
    for part in (slice(0, half), slice(half, None)):
        _spaces[shape] += wide[..., part] @ rows[:, part].T
    return (_spaces[shape] + bias.float()).to(x.dtype)
