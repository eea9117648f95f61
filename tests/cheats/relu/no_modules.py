# verdict: wrong|raised|exited|crashed|protocol
# E14: takes every module away from under its process and returns zeros.

import gc
import sys

import torch


def relu(x):
    y = torch.zeros(x.shape, dtype=x.dtype)
    for name in list(sys.modules):
        if name.startswith("pytest_kbench"):
            vars(sys.modules.pop(name)).clear()
    gc.collect()
    return y
