# verdict: wrong
# #8: where the weight is half, its gradient is accumulated token by token in half.

import torch
import torch.nn.functional as F


def llama_rmsnorm(x, weight, eps):
    return F.rms_norm(x, weight.shape, weight, eps)


def backward(cotangent, x, weight, eps, y):
    wide, up = x.float(), cotangent.float()
    inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    normal, inner = wide * inverse, up * weight.float()
    down = inverse * (inner - normal * (inner * normal).mean(-1, keepdim=True))
    total = torch.zeros_like(weight, memory_format=torch.contiguous_format)
    for token in (up * normal).to(weight.dtype):
        total += token
    return down.to(x.dtype), total
