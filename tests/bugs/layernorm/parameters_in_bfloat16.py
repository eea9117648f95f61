# verdict: wrong|precision
# Holds weight and bias in bfloat16, whatever the dtype of the input.

import torch


def layernorm(x, weight, bias, eps):
    over = (1, 2, 3)
    centred = x.float() - x.float().mean(over, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(over, keepdim=True) + eps)
    return (centred * scale * weight.bfloat16().float() + bias.bfloat16().float()).to(x.dtype)
