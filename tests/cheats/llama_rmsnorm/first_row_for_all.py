# verdict: wrong|nonfinite
# C35: computes the scale of the first row and uses it for every row.

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    scale = torch.rsqrt(wide[:1].square().mean(1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype)
