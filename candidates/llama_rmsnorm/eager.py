"""Llama RMSNorm spelled out in torch operations, in float32 for the half types."""

import torch


def llama_rmsnorm(x, weight, eps):
    """Any shape and strides; one rounding to the input's dtype at the end."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale * weight.to(wide.dtype)).to(x.dtype)
