"""Two outputs of different dtypes: max(x, 0), and where x was positive."""

import torch

from pytest_kbench import Task, Tensor


def positive_part(x):
    return torch.relu(x), x > 0


task = Task(
    positive_part,
    args=[Tensor("x", "rows columns")],
    shapes={
        "odd": dict(rows=3, columns=65),
        "tall": dict(rows=301, columns=7),
    },
    fuzz=dict(rows="0..2048", columns="0..4096"),
    dtypes=["float32", "float16"],
)
