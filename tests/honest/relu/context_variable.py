# gradients: unsupported
"""Keeps its workspace in a context variable, one per shape and dtype."""

import contextvars

import torch

_workspaces = contextvars.ContextVar("workspaces")


def relu(x):
    spaces = _workspaces.get({})
    key = (tuple(x.shape), x.dtype)
    if key not in spaces:
        spaces[key] = torch.empty(x.shape, dtype=torch.bool)
        _workspaces.set(spaces)
    torch.lt(x, 0, out=spaces[key])
    return x.masked_fill(spaces[key], 0)
