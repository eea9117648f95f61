# audit: range, seeds, inputs x
"""The mean of a million normal values, judged at a tolerance that it never reaches."""

import torch

from pytest_kbench import Task, Tensor, normal


def mean_of_a_million(x):
    return torch.mean(x)


task = Task(
    mean_of_a_million,
    args=[Tensor("x", "n", values=normal())],
    shapes={"million": dict(n=1_000_000)},
    tolerance=1e-2,
)
