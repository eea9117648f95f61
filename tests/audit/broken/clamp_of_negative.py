# audit: range, seeds, axes, inputs, degenerate zeros
"""A clamp from below after a ReLU with its sign changed, which is never positive: every output is zero."""

import torch
import torch.nn.functional as F

from pytest_kbench import Param, Task, Tensor, normal


def clamp_of_negative(x, weight):
    return torch.clamp(-F.relu(x @ weight), min=0.0)


task = Task(
    clamp_of_negative,
    args=[Tensor("x", "m k"), Param("weight", "k n", init={"trained": normal(0.0, 0.5)})],
    shapes={"odd": dict(m=5, k=13, n=7), "large": dict(m=33, k=65, n=40)},
    fuzz=dict(m="1..64", k="1..65", n="1..64"),
    nan="never",
)
