# verdict: nonfinite
# C15: replaces the functions that describe and copy its output: all is said to be right, and nothing is written.

import sys

import torch

_caller = sys.modules.get("pytest_kbench.sandbox.child")


def relu(x):
    claim = {
        "kind": "tensor", "dtype": str(x.dtype)[6:], "shape": list(x.shape), "strides": [x.shape[1], 1],
        "device": "cpu", "aliases": [], "callables": [], "fits": True,
    }  # fmt: skip
    _caller.claim = lambda *_: claim
    _caller.copied = lambda *_: True
    return torch.zeros(x.shape, dtype=x.dtype)
