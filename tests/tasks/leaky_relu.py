"""Leaky ReLU: what is negative is multiplied by a slope."""

import torch.nn.functional as F

from pytest_kbench import Scalar, Task, Tensor


def leaky_relu(x, slope):
    return F.leaky_relu(x, slope)


task = Task(
    leaky_relu,
    args=[Tensor("x", "rows columns"), Scalar("slope", 0.01, 0.25)],
    shapes={
        "odd": dict(rows=3, columns=65),
        "tall": dict(rows=301, columns=7),
    },
    fuzz=dict(rows="0..2048", columns="0..4096"),
    dtypes=["float32", "float16"],
    grad=["x"],
)
