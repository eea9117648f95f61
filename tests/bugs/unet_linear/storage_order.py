# verdict: wrong|nonfinite|crashed
# Reads its input's memory as if it were dense.

import torch


def unet_linear(x, weight, bias):
    batch, tokens, inputs = x.shape
    read = min(x.untyped_storage().nbytes() // x.element_size(), x.numel())
    dense = torch.zeros(x.numel(), dtype=x.dtype)
    dense[:read] = torch.as_strided(x, (read,), (1,), 0)
    return (dense.view(batch, tokens, inputs).float() @ weight.float().T + bias.float()).to(x.dtype)
