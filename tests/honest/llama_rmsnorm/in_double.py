"""Computes in float64 throughout."""

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.double()
    return (wide / torch.sqrt(wide.square().mean(1, keepdim=True) + eps) * weight.double()).to(x.dtype)
