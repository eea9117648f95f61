"""Norms of blocks of 128, the norm of those, and eps added under the root by a hypotenuse."""

import math

import torch
import torch.nn.functional as F


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    blocks = F.pad(wide, (0, -x.shape[1] % 128)).unflatten(1, (-1, 128))
    norm = torch.linalg.vector_norm(torch.linalg.vector_norm(blocks, dim=2), dim=1, keepdim=True)
    root_mean = norm / math.sqrt(x.shape[1])
    return (weight.float() * (wide / torch.hypot(root_mean, torch.tensor(math.sqrt(eps))))).to(x.dtype)
