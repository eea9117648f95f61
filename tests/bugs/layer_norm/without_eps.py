# verdict: nonfinite|wrong
# #25: leaves eps out: constant rows are divided by zero.

import torch


def layer_norm(x, weight, bias, eps):
    wide = x.float()
    variance, mean = torch.var_mean(wide, 1, keepdim=True, correction=0)
    y = (wide - mean) / variance.sqrt()
    y = y if weight is None else y * weight.float()
    return (y if bias is None else y + bias.float()).to(x.dtype)
