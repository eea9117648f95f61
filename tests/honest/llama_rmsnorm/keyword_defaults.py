"""Has defaults that nobody uses, and more of them than the task has arguments."""

import torch


def llama_rmsnorm(x, weight=None, eps=1e-6, out_dtype=None):
    wide = x.float()
    y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    y = y if weight is None else y * weight.float()
    return y.to(out_dtype or x.dtype)
