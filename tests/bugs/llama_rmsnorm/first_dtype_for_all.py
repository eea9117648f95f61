# verdict: wrong|nonfinite|precision
# Is specialised at the first call: whatever comes later is rounded to the dtype that came then.

import torch

_compiled = []


def llama_rmsnorm(x, weight, eps):
    _compiled.append(x.dtype)
    wide = x.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()
    return y.to(_compiled[0]).to(x.dtype)
