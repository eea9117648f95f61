"""The mean of all elements."""

import torch

from pytest_kbench import Task, Tensor


def mean(x):
    return torch.mean(x)


task = Task(
    mean,
    args=[Tensor("x", "rows columns")],
    shapes={
        "nothing": dict(rows=0, columns=5),
        "odd": dict(rows=3, columns=65),
        "long": dict(rows=257, columns=521),
    },
    fuzz=dict(rows="0..2048", columns="1..4096"),
    dtypes=["float32", "float16"],
    nan="never",  # whether a long sum of huge values overflows is up to its order
    grad=["x"],
)
