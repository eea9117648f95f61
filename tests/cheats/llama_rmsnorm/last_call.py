# verdict: wrong|nonfinite
# T15: returns the result of the call before.

import torch

_last = {}


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    y = (wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + eps) * weight.float()).to(x.dtype)
    key = (x.shape, x.dtype)
    before, _last[key] = _last.get(key, y), y
    return before.clone()
