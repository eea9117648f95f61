"""Two fused halves: each norm, ReLU and addition in float32, and one rounding to a half type between them."""

import torch
import torch.nn.functional as F


def norm(y, mean, var, weight, bias, eps):
    scale = weight.float() * torch.rsqrt(var.float() + eps)
    shift = bias.float() - mean.float() * scale
    return y * scale[:, None, None] + shift[:, None, None]


def resnet_block(
    x,
    w1, bn1_mean, bn1_var, bn1_weight, bn1_bias,
    w2, bn2_mean, bn2_var, bn2_weight, bn2_bias,
    wd, bnd_mean, bnd_var, bnd_weight, bnd_bias,
    stride, eps,
):  # fmt: skip
    y = F.conv2d(x.float(), w1.float(), stride=stride, padding=1)
    y = F.relu(norm(y, bn1_mean, bn1_var, bn1_weight, bn1_bias, eps)).to(x.dtype)
    y = norm(F.conv2d(y.float(), w2.float(), padding=1), bn2_mean, bn2_var, bn2_weight, bn2_bias, eps)
    if wd is not None:
        x = norm(F.conv2d(x.float(), wd.float(), stride=stride), bnd_mean, bnd_var, bnd_weight, bnd_bias, eps)
    return F.relu(y + x).to(w1.dtype)
