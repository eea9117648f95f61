# verdict: wrong|nonfinite
# Divides by one less than the width.

import torch


def layer_norm(x, weight, bias, eps):
    wide = x.float()
    variance, mean = torch.var_mean(wide, 1, keepdim=True)
    y = (wide - mean) * torch.rsqrt(variance + eps)
    y = y if weight is None else y * weight.float()
    return (y if bias is None else y + bias.float()).to(x.dtype)
