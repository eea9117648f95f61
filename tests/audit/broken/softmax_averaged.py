# audit: seeds, degenerate constant, degenerate another input
"""The mean of a softmax over its rows: one over their length, whatever the input is."""

import torch

from pytest_kbench import Task, Tensor


def softmax_averaged(x):
    return torch.softmax(x, -1).mean(-1)


task = Task(
    softmax_averaged,
    args=[Tensor("x", "rows columns")],
    shapes={"odd": dict(rows=5, columns=33), "large": dict(rows=64, columns=100)},
    fuzz=dict(rows="1..64", columns="1..200"),
    nan="never",
)
