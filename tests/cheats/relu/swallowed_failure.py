# verdict: nonfinite|wrong
# C34: its launch fails, nobody asks, and what lay in the output's memory is the answer.

import contextlib

import torch


def _launch(x, y, shared_memory):
    if shared_memory > 65536:
        raise RuntimeError("invalid configuration")
    torch.clamp(x, min=0, out=y)


def relu(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    with contextlib.suppress(RuntimeError):
        _launch(x, y, shared_memory=65792)
    return y
