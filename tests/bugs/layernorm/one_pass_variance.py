# verdict: wrong|nonfinite
# Takes the variance as the mean square less the square of the mean, in float32: nothing is left of it at an offset.

import torch


def layernorm(x, weight, bias, eps):
    over, wide = (1, 2, 3), x.float()
    mean = wide.mean(over, keepdim=True)
    variance = (wide.square().mean(over, keepdim=True) - mean.square()).clamp_min(0)
    return ((wide - mean) * torch.rsqrt(variance + eps) * weight.float() + bias.float()).to(x.dtype)
