# verdict: wrong|nonfinite
# Compiles eps in at the first call of a shape.

import torch

_compiled = {}


def layernorm(x, weight, bias, eps):
    over = (1, 2, 3)
    eps = _compiled.setdefault(tuple(x.shape[1:]), eps)
    centred = x.float() - x.float().mean(over, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(over, keepdim=True) + eps)
    return (centred * scale * weight.float() + bias.float()).to(x.dtype)
