# verdict: wrong|nonfinite
# Uses eps as the least variance instead of adding it: seen only where the variance is small, or the digits are counted.

import torch


def layer_norm(x, weight, bias, eps):
    centred = x.float() - x.float().mean(1, keepdim=True)
    y = centred * torch.rsqrt(centred.square().mean(1, keepdim=True).clamp(min=eps))
    y = y if weight is None else y * weight.float()
    return (y if bias is None else y + bias.float()).to(x.dtype)
