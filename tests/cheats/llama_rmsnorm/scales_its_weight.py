# verdict: inputs_changed
# C05: folds a constant into the weight that it was lent, and takes it out of the scale.

import torch


def llama_rmsnorm(x, weight, eps):
    weight.mul_(2)
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + eps) * (weight.float() / 2)).to(x.dtype)
