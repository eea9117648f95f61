# verdict: wrong|nonfinite
# Two rows per block from 128 rows on: without a partner, the last one is scaled by the block before.

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    if len(x) > 128 and len(x) % 2:
        scale[-1] = scale[-2]
    return (wide * scale * weight.float()).to(x.dtype)
