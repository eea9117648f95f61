# verdict: nonfinite|wrong
# T02: returns an empty output that a thread fills 50 ms later.

import threading
import time

import torch


def _fill(x, y):
    time.sleep(0.05)
    torch.clamp(x, min=0, out=y)


def relu(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    threading.Thread(target=_fill, args=(x, y), daemon=True).start()
    return y
