# verdict: wrong
# The mean is cut from the graph, the variance is not.

import torch


def layernorm(x, weight, bias, eps):
    wide = x.float()
    around = (1, 2, 3)
    mean = wide.mean(around, keepdim=True).detach()
    variance = (wide - mean).square().mean(around, keepdim=True)
    return ((wide - mean) * torch.rsqrt(variance + eps) * weight.float() + bias.float()).to(x.dtype)
