# verdict: wrong
# The inverse root is cut from the graph: the input's gradient knows nothing of it.

import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * inverse.detach() * weight.float()).to(x.dtype)
