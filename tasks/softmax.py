"""Softmax over the last dimension: y = exp(x) / sum(exp(x))."""

import torch

from pytest_kbench import Task, Tensor


def softmax(x):
    """The reference."""
    return torch.softmax(x, dim=-1)


task = Task(
    softmax,
    args=[Tensor("x", "rows columns")],
    shapes={
        "odd": dict(rows=3, columns=65),
        "wide": dict(rows=3, columns=32771),  # more elements than 16 bits count
        "tall": dict(rows=1031, columns=7),
        "empty": dict(rows=0, columns=65),
        "laptop": dict(rows=512, columns=1024),
        "kernelbench": dict(rows=4096, columns=393216),  # KernelBench level 1, problem 23
    },
    fuzz=dict(rows="0..4096", columns="1..393216"),
    time=dict(cpu=["laptop"], cuda=["laptop", "kernelbench"]),
    dtypes=["float32", "float16", "bfloat16"],
    grad=["x"],
)
