# verdict: wrong
# Divides by one element less, as a sample's variance does.

import torch


def layernorm(x, weight, bias, eps):
    over = (1, 2, 3)
    centred = x.float() - x.float().mean(over, keepdim=True)
    scale = torch.rsqrt(centred.square().sum(over, keepdim=True) / max(weight.numel() - 1, 1) + eps)
    return (centred * scale * weight.float() + bias.float()).to(x.dtype)
