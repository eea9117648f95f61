"""Every element moved into a range."""

import torch

from pytest_kbench import Scalar, Task, Tensor


def clip(x, limit):
    return torch.clamp(x, -limit, limit)


task = Task(
    clip,
    args=[Tensor("x", "rows columns"), Scalar("limit", 1.0, 8.0)],
    shapes={
        "odd": dict(rows=3, columns=65),
        "tall": dict(rows=301, columns=7),
    },
    fuzz=dict(rows="0..2048", columns="0..4096"),
    dtypes=["float32", "float16"],
    grad=["x"],
)
