"""A residual block at inference with its batch norms folded into the convolutions before them."""

import torch
import torch.nn.functional as F


def folded(weight, mean, var, gamma, beta, eps):
    """Weight and bias of one convolution that does what a convolution and its norm do, in float32 at least."""
    wide = torch.promote_types(weight.dtype, torch.float32)
    scale = gamma.to(wide) * torch.rsqrt(var.to(wide) + eps)
    return weight.to(wide) * scale[:, None, None, None], beta.to(wide) - mean.to(wide) * scale


def resnet_block(
    x,
    w1, bn1_mean, bn1_var, bn1_weight, bn1_bias,
    w2, bn2_mean, bn2_var, bn2_weight, bn2_bias,
    wd, bnd_mean, bnd_var, bnd_weight, bnd_bias,
    stride, eps,
):  # fmt: skip
    """Any strides and dtype; float32 for the half types, with one rounding at the end."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    y = F.conv2d(wide, *folded(w1, bn1_mean, bn1_var, bn1_weight, bn1_bias, eps), stride=stride, padding=1)
    y = F.conv2d(y.relu(), *folded(w2, bn2_mean, bn2_var, bn2_weight, bn2_bias, eps), padding=1)
    if wd is not None:
        wide = F.conv2d(wide, *folded(wd, bnd_mean, bnd_var, bnd_weight, bnd_bias, eps), stride=stride)
    return torch.relu(y + wide).to(x.dtype)
