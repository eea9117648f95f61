# verdict: wrong|nonfinite
# #25: leaves eps out: rows of zeros become NaN, small rows too large.

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(1, keepdim=True)) * weight.float()).to(x.dtype)
