"""SiLU: x * sigmoid(x), elementwise."""

import torch.nn.functional as F

from pytest_kbench import Task, Tensor


def silu(x):
    return F.silu(x)


task = Task(
    silu,
    args=[Tensor("x", "rows columns")],
    shapes={
        "odd": dict(rows=3, columns=65),
        "tall": dict(rows=301, columns=7),
    },
    fuzz=dict(rows="0..2048", columns="0..4096"),
    dtypes=["float32", "bfloat16"],
    grad=["x"],
)
