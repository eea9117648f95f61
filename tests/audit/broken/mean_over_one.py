# audit: range, seeds, inputs, degenerate zeros
"""The largest value of each row, less the mean over the axis that is left with one element: zero."""

import torch

from pytest_kbench import Task, Tensor


def mean_over_one(x):
    largest = torch.amax(x, 1, keepdim=True)
    return torch.tanh(largest - largest.mean(1, keepdim=True))


task = Task(
    mean_over_one,
    args=[Tensor("x", "rows columns")],
    shapes={"odd": dict(rows=5, columns=33), "large": dict(rows=128, columns=100)},
    fuzz=dict(rows="1..128", columns="1..200"),
    nan="never",
)
