# audit: copy
"""Dropout in training mode: not even the reference gives the same twice."""

import torch.nn.functional as F

from pytest_kbench import Task, Tensor


def training_dropout(x):
    return F.dropout(x * 2.0, 0.5, training=True)


task = Task(
    training_dropout,
    args=[Tensor("x", "rows columns")],
    shapes={"odd": dict(rows=5, columns=33), "large": dict(rows=64, columns=100)},
    fuzz=dict(rows="1..64", columns="1..200"),
    nan="never",
)
