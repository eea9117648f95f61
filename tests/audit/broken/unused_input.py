# audit: inputs y, degenerate y ignored
"""A second input that is drawn, passed on, and never used."""

import torch

from pytest_kbench import Task, Tensor


def unused_input(x, y):
    return torch.sigmoid(x)


task = Task(
    unused_input,
    args=[Tensor("x", "rows columns"), Tensor("y", "rows columns")],
    shapes={"odd": dict(rows=5, columns=33), "large": dict(rows=700, columns=100)},
    fuzz=dict(rows="1..700", columns="1..200"),
    nan="never",
)
