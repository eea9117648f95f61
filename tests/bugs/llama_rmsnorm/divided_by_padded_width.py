# verdict: wrong|nonfinite
# Divides by the width rounded up to a multiple of 64.

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    padded = max(1, -(-x.shape[1] // 64) * 64)
    return (wide * torch.rsqrt(wide.square().sum(1, keepdim=True) / padded + eps) * weight.float()).to(x.dtype)
