# verdict: wrong
# Projects its shortcut only where the stride changes; more planes at the same size are filled up with zeros.

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
    y = F.batch_norm(F.conv2d(y, w2, padding=1), bn2_mean, bn2_var, bn2_weight, bn2_bias, eps=eps)
    if stride != 1:
        x = F.batch_norm(F.conv2d(x, wd, stride=stride), bnd_mean, bnd_var, bnd_weight, bnd_bias, eps=eps)
    else:
        x = F.pad(x, (0, 0, 0, 0, 0, y.shape[1] - x.shape[1]))
    return F.relu(y + x)
