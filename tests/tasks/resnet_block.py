"""A residual block at inference: conv-BN-ReLU-conv-BN, a downsampled shortcut where the shape changes, add, ReLU."""

import torch.nn.functional as F

from pytest_kbench import Dim, Param, Task, Tensor, batch_norm, kaiming

DOWNSAMPLES = "stride != 1 or cin != planes"


def resnet_block(
    x, w1, bn1_mean, bn1_var, bn1_weight, bn1_bias, w2, bn2_mean, bn2_var, bn2_weight, bn2_bias,
    wd, bnd_mean, bnd_var, bnd_weight, bnd_bias, stride,
):  # fmt: skip
    y = F.conv2d(x, w1, stride=stride, padding=1)
    y = F.relu(F.batch_norm(y, bn1_mean, bn1_var, bn1_weight, bn1_bias))
    y = F.batch_norm(F.conv2d(y, w2, padding=1), bn2_mean, bn2_var, bn2_weight, bn2_bias)
    if wd is not None:
        x = F.batch_norm(F.conv2d(x, wd, stride=stride), bnd_mean, bnd_var, bnd_weight, bnd_bias)
    return F.relu(y + x)


task = Task(
    resnet_block,
    args=[
        Tensor("x", "n cin hw hw"),
        Param("w1", "planes cin 3 3", init={"kaiming": kaiming()}),
        batch_norm("bn1", "planes"),
        Param("w2", "planes planes 3 3", init={"kaiming": kaiming()}),
        batch_norm("bn2", "planes"),
        Param("wd", "planes cin 1 1", init={"kaiming": kaiming()}, present=DOWNSAMPLES),
        batch_norm("bnd", "planes", present=DOWNSAMPLES),
        Dim("stride"),
    ],
    shapes={
        "plain": dict(n=1, cin=4, planes=4, hw=9, stride=1),
        "down": dict(n=2, cin=4, planes=8, hw=8, stride=2),
    },
    fuzz=dict(n="1..4", cin="1..16", planes="1..16", hw="1..16", stride="1|2"),
)
