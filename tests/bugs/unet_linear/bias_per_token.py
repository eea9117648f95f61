# verdict: wrong
# Adds the bias along the tokens instead of along the outputs.

import torch


def unet_linear(x, weight, bias):
    y = x.float() @ weight.float().T
    if y.shape[-1]:
        y += bias.float()[torch.arange(x.shape[1]) % y.shape[-1]].unsqueeze(1)
    return y.to(x.dtype)
