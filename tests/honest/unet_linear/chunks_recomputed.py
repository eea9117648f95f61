# Images one after another, each of which is computed once more in the backward; gradients of parameters add up.
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def unet_linear(x, weight, bias):
    if not len(x):
        return F.linear(x, weight, bias)
    wide = weight.float(), bias.float()
    return torch.stack([checkpoint(F.linear, each.float(), *wide, use_reentrant=False) for each in x]).to(x.dtype)
