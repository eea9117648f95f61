# verdict: unsupported
# Reads a weight that may be absent (apex 403).

import torch


def layer_norm(x, weight, bias, eps):
    wide = x.float()
    variance, mean = torch.var_mean(wide, 1, keepdim=True, correction=0)
    return ((wide - mean) * torch.rsqrt(variance + eps) * weight.float() + bias.float()).to(x.dtype)
