# verdict: wrong|nonfinite
# T18: keeps the first weight of a width and dtype for ever.

import torch

_weights = {}


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    kept = _weights.setdefault((weight.shape, weight.dtype), weight.float().clone())
    return (wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + eps) * kept).to(x.dtype)
