"""Its output comes as a parameter, as from a module that keeps one."""

import torch


def relu(x):
    return torch.nn.Parameter(x.clamp_min(0), requires_grad=False)
