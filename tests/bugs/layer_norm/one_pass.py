# verdict: wrong|nonfinite
# #24: the variance as E[x^2] - E[x]^2, which cancels where the mean is large.

import torch


def layer_norm(x, weight, bias, eps):
    wide = x.float()
    mean = wide.mean(1, keepdim=True)
    variance = (wide * wide).mean(1, keepdim=True) - mean * mean
    y = (wide - mean) * torch.rsqrt(variance + eps)
    y = y if weight is None else y * weight.float()
    return (y if bias is None else y + bias.float()).to(x.dtype)
