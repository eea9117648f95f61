# verdict: wrong|nonfinite
# Leaves eps out.

import torch


def layernorm(x, weight, bias, eps):
    over = (1, 2, 3)
    centred = x.float() - x.float().mean(over, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(over, keepdim=True))
    return (centred * scale * weight.float() + bias.float()).to(x.dtype)
