# verdict: wrong|nonfinite
# C37: ignores the weight, which a weight of ones would hide.

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + eps)).to(x.dtype)
