# verdict: wrong|nonfinite
# Scales its second norm by sqrt(weight^2 / (var + eps)): a negative weight loses its sign.

import torch.nn.functional as F


def resnet_block(
    x,
    w1, bn1_mean, bn1_var, bn1_weight, bn1_bias,
    w2, bn2_mean, bn2_var, bn2_weight, bn2_bias,
    wd, bnd_mean, bnd_var, bnd_weight, bnd_bias,
    stride, eps,
):  # fmt: skip
    y = F.conv2d(x, w1, stride=stride, padding=1)
    y = F.relu(F.batch_norm(y, bn1_mean, bn1_var, bn1_weight, bn1_bias, eps=eps))
    y = F.conv2d(y, w2, padding=1).float()
    mean, var, weight, bias = (each.float().view(-1, 1, 1) for each in (bn2_mean, bn2_var, bn2_weight, bn2_bias))
    y = ((y - mean) * (weight.square() / (var + eps)).sqrt() + bias).to(x.dtype)
    if wd is not None:
        x = F.batch_norm(F.conv2d(x, wd, stride=stride), bnd_mean, bnd_var, bnd_weight, bnd_bias, eps=eps)
    return F.relu(y + x)
