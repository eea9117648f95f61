# gradients: nonfinite|passed
"""The mean first, then the mean of squared differences; in float32."""

import torch


def layer_norm(x, weight, bias, eps):
    centred = x.float() - x.float().mean(1, keepdim=True)
    y = centred * torch.rsqrt(centred.square().mean(1, keepdim=True) + eps)
    y = y if weight is None else y * weight.float()
    return (y if bias is None else y + bias.float()).to(x.dtype)
