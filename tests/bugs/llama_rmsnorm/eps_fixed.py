# verdict: wrong|nonfinite
# Ignores the eps that it is given and uses 1e-6.

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-6) * weight.float()).to(x.dtype)
