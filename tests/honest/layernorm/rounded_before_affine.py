# Normalised in float32, rounded to the working dtype, scaled and shifted there, as many fused kernels do.
import torch


def layernorm(x, weight, bias, eps):
    wide = x.float().flatten(1)
    centred = wide - wide.mean(1, keepdim=True)
    y = (centred / (centred.square().mean(1, keepdim=True) + eps).sqrt()).view(x.shape).to(x.dtype)
    return y * weight + bias
