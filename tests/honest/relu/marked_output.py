"""Leaves a plain attribute on its output, as compilers do."""

import torch


def relu(x):
    y = torch.relu(x)
    y.computed_by = "relu/marked_output"
    return y
