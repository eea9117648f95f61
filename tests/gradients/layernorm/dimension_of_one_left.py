# verdict: structure
# The gradients of weight and bias keep the dimension that they were summed over.

import torch.nn.functional as F


def layernorm(x, weight, bias, eps):
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def backward(cotangent, x, weight, bias, eps, y):
    wide, up = x.double(), cotangent.double()
    around = (1, 2, 3)
    inverse = (wide.var(around, correction=0, keepdim=True) + eps).rsqrt()
    normal, inner = (wide - wide.mean(around, keepdim=True)) * inverse, up * weight
    down = inverse * (inner - inner.mean(around, keepdim=True) - normal * (inner * normal).mean(around, keepdim=True))
    sums = [each.sum(0, keepdim=True).to(x.dtype) for each in (up * normal, up)]
    return down.to(x.dtype), *sums
