# verdict: wrong|nonfinite
# Gemma's convention: scales by 1 + weight.

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + eps) * (1 + weight.float())).to(x.dtype)
