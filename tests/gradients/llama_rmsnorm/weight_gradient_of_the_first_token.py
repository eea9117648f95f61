# verdict: wrong
# The weight's gradient is that of the first token, where it is the sum over all.

import torch
import torch.nn.functional as F


def llama_rmsnorm(x, weight, eps):
    return F.rms_norm(x, weight.shape, weight, eps)


def backward(cotangent, x, weight, eps, y):
    wide, up = x.float(), cotangent.float()
    inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    normal, inner = wide * inverse, up * weight.float()
    down = inverse * (inner - normal * (inner * normal).mean(-1, keepdim=True))
    return down.to(x.dtype), (up * normal)[:1].sum(0).to(weight.dtype)
