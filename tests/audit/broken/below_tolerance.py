# audit: range, degenerate zeros, degenerate constant
"""A softmax over long rows, judged at a tolerance that its outputs are a hundred times smaller than."""

import torch

from pytest_kbench import Task, Tensor, uniform


def below_tolerance(x):
    return torch.softmax(x, -1)


task = Task(
    below_tolerance,
    args=[Tensor("x", "rows columns", values=uniform(0.0, 1.0))],
    shapes={"long": dict(rows=3, columns=20000), "longer": dict(rows=2, columns=32768)},
    tolerance=1e-2,
)
