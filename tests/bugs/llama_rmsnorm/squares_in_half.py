# verdict: wrong|nonfinite
# #8: squares in the input's dtype: float16 overflows from 256 on and loses what is small.

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    squares = (x * x).float()
    return (wide * torch.rsqrt(squares.mean(1, keepdim=True) + eps) * weight.float()).to(x.dtype)
