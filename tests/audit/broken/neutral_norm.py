# audit: neutral mean, neutral var, neutral weight, neutral bias
"""A batch norm whose statistics and parameters are those it is made with: nearly nothing happens."""

import torch.nn.functional as F

from pytest_kbench import Param, Task, Tensor, constant


def neutral_norm(x, mean, var, weight, bias):
    return F.batch_norm(x, mean, var, weight, bias)


task = Task(
    neutral_norm,
    args=[
        Tensor("x", "n c h w"),
        Param("mean", "c", init=constant(0.0)),
        Param("var", "c", init=constant(1.0)),
        Param("weight", "c", init=constant(1.0)),
        Param("bias", "c", init=constant(0.0)),
    ],
    shapes={"odd": dict(n=2, c=3, h=5, w=7), "large": dict(n=4, c=35, h=24, w=24)},
    fuzz=dict(n="1..4", c="1..40", h="1..24", w="1..24"),
    nan="never",
)
