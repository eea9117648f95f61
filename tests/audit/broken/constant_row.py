# audit: axes, seeds, inputs, degenerate another input
"""One fixed row for every input: x only says how many rows there are."""

import torch

from pytest_kbench import Task, Tensor


def constant_row(x):
    row = torch.linspace(-1.0, 1.0, x.shape[1]).to(x.dtype)
    return row.expand(x.shape[0], -1) + 0.0 * x


task = Task(
    constant_row,
    args=[Tensor("x", "rows columns")],
    shapes={"odd": dict(rows=5, columns=33), "large": dict(rows=64, columns=100)},
    fuzz=dict(rows="1..64", columns="1..200"),
    nan="never",
)
