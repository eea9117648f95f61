# verdict: wrong|nonfinite
# A layer norm: subtracts the mean first.

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.float() - x.float().mean(1, keepdim=True)
    return (wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + eps) * weight.float()).to(x.dtype)
