# verdict: wrong|nonfinite
# Divides by the norm: the sum of squares is not divided by the width.

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().sum(1, keepdim=True) + eps) * weight.float()).to(x.dtype)
