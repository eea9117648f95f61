# verdict: nonfinite|wrong
# Rows of more than 256 columns keep their partial sums in the dtype of the input.

import torch
import torch.nn.functional as F


def layer_norm(x, weight, bias, eps):
    wide, columns = x.float(), x.shape[1]
    if columns > 256:
        parts = F.pad(wide, (0, -columns % 256)).unflatten(1, (-1, 256)).sum(2).to(x.dtype)
        mean = parts.float().sum(1, keepdim=True) / columns
    else:
        mean = wide.mean(1, keepdim=True)
    centred = wide - mean
    y = centred * torch.rsqrt(centred.square().mean(1, keepdim=True) + eps)
    y = y if weight is None else y * weight.float()
    return (y if bias is None else y + bias.float()).to(x.dtype)
