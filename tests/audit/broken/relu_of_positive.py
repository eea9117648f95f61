# audit: redundant relu#1, degenerate input x
"""A ReLU of inputs that are never negative."""

import torch.nn.functional as F

from pytest_kbench import Task, Tensor, uniform


def relu_of_positive(x):
    return F.relu(x)


task = Task(
    relu_of_positive,
    args=[Tensor("x", "rows columns", values=uniform(0.0, 1.0))],
    shapes={"odd": dict(rows=5, columns=33), "large": dict(rows=700, columns=100)},
    fuzz=dict(rows="1..700", columns="1..200"),
)
