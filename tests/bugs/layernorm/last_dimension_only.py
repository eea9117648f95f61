# verdict: wrong
# Normalises every row of the last dimension for itself.

import torch


def layernorm(x, weight, bias, eps):
    over = (3,)
    centred = x.float() - x.float().mean(over, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(over, keepdim=True) + eps)
    return (centred * scale * weight.float() + bias.float()).to(x.dtype)
