# verdict: wrong|nonfinite
# Adds the bias only where there is a weight too.

import torch


def layer_norm(x, weight, bias, eps):
    wide = x.float()
    variance, mean = torch.var_mean(wide, 1, keepdim=True, correction=0)
    y = (wide - mean) * torch.rsqrt(variance + eps)
    if weight is not None:
        y = y * weight.float() + (0 if bias is None else bias.float())
    return y.to(x.dtype)
