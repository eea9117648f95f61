# verdict: wrong
# Leaves the bias out.

import torch


def layernorm(x, weight, bias, eps):
    over = (1, 2, 3)
    centred = x.float() - x.float().mean(over, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(over, keepdim=True) + eps)
    return (centred * scale * weight.float()).to(x.dtype)
