# verdict: wrong
# The cotangent reaches the input's gradient without the weight.

import torch.nn.functional as F


def layernorm(x, weight, bias, eps):
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def backward(cotangent, x, weight, bias, eps, y):
    wide, up = x.double(), cotangent.double()
    around = (1, 2, 3)
    inverse = (wide.var(around, correction=0, keepdim=True) + eps).rsqrt()
    normal = (wide - wide.mean(around, keepdim=True)) * inverse
    down = inverse * (up - up.mean(around, keepdim=True) - normal * (up * normal).mean(around, keepdim=True))
    return down.to(x.dtype), (up * normal).sum(0).to(weight.dtype), up.sum(0).to(bias.dtype)
