# verdict: wrong|nonfinite
# Pads both matrices in workspaces that are zeros when they are made, or grow, and never again.

import torch

_spaces = {}


def matmul(a, b):
    padded = (a.shape[1] + 31) // 32 * 32
    left = space("left", a.shape[0], padded)
    right = space("right", b.shape[1], padded)
    left[:, : a.shape[1]] = a
    right[:, : a.shape[1]] = b.T
    return (left @ right.T).to(a.dtype)


def space(name, rows, columns):
    if name not in _spaces or _spaces[name].shape[0] < rows or _spaces[name].shape[1] < columns:
        _spaces[name] = torch.zeros(rows, columns)
    return _spaces[name][:rows, :columns]
