"""Registers an operator with torch and calls it through the dispatcher."""

import torch
from torch import library


@library.custom_op("honest::relu", mutates_args=())
def _relu(x: torch.Tensor) -> torch.Tensor:
    return torch.clamp_min(x, 0)


def relu(x):
    return torch.ops.honest.relu(x)
