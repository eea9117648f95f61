# verdict: nonfinite|wrong
# Returns an empty output that is filled when the candidate's own objects are collected.

import weakref

import torch


class Task:
    """Something to be forgotten."""


_kept = []


def relu(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    _kept.append(Task())
    weakref.finalize(_kept[-1], torch.clamp, x, min=0, out=y)
    return y
