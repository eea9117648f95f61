"""Logarithm of the softmax over the last dimension."""

import torch

from pytest_kbench import Task, Tensor


def log_softmax(x):
    return torch.log_softmax(x, dim=-1)


task = Task(
    log_softmax,
    args=[Tensor("x", "rows columns")],
    shapes={
        "empty": dict(rows=0, columns=5),
        "odd": dict(rows=3, columns=65),
        "tall": dict(rows=301, columns=7),
    },
    fuzz=dict(rows="0..2048", columns="1..4096"),
    dtypes=["float32", "bfloat16"],
    grad=["x"],
)
