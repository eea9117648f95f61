"""The largest element of each row; NaN if there is one."""

import torch

from pytest_kbench import Task, Tensor


def row_max(x):
    return torch.amax(x, dim=-1)


task = Task(
    row_max,
    args=[Tensor("x", "rows columns")],
    shapes={
        "no-rows": dict(rows=0, columns=5),
        "odd": dict(rows=3, columns=65),
        "tall": dict(rows=301, columns=7),
    },
    fuzz=dict(rows="0..2048", columns="1..4096"),
    dtypes=["float32", "bfloat16"],
    ties="mask",
    grad=["x"],
)
