# verdict: wrong|nonfinite
# Keeps the mean of squares in the dtype of the input: in float16 it overflows, or nothing is left of it.

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    mean = wide.square().mean(-1, keepdim=True).to(x.dtype)
    return (wide * torch.rsqrt(mean.float() + eps) * weight.float()).to(x.dtype)
