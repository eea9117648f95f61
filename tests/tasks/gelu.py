"""GELU, exact or by the hyperbolic tangent."""

import torch.nn.functional as F

from pytest_kbench import Scalar, Task, Tensor


def gelu(x, approximate):
    return F.gelu(x, approximate=approximate)


task = Task(
    gelu,
    args=[Tensor("x", "rows columns"), Scalar("approximate", "none", "tanh")],
    shapes={
        "odd": dict(rows=3, columns=65),
        "tall": dict(rows=301, columns=7),
    },
    fuzz=dict(rows="0..2048", columns="0..4096"),
    grad=["x"],
)
