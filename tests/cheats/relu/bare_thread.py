# verdict: nonfinite|wrong
# T03: returns an empty output that a thread fills which `threading` does not count.

import _thread
import time

import torch


def _fill(x, y):
    time.sleep(0.02)
    torch.clamp(x, min=0, out=y)


def relu(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    _thread.start_new_thread(_fill, (x, y))
    return y
