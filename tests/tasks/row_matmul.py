"""A matrix product whose rows are bit by bit the same whatever other rows there are."""

import torch

from pytest_kbench import Param, Task, Tensor, normal


def row_matmul(x, weight):
    rows = [row @ weight for row in x]
    return torch.stack(rows) if rows else x.new_empty(0, weight.shape[1])


task = Task(
    row_matmul,
    args=[Tensor("x", "rows inner"), Param("weight", "inner columns", normal(0.0, 1.0))],
    shapes={
        "odd": dict(rows=3, inner=65, columns=7),
        "row": dict(rows=1, inner=257, columns=5),
        "many": dict(rows=97, inner=513, columns=33),
    },
    fuzz=dict(rows="0..256", inner="1..1024", columns="1..256"),
    dtypes=["float32", "bfloat16"],
    nan="never",  # what an infinity times zero gives is no matter here
    batch_invariant="rows",
)
