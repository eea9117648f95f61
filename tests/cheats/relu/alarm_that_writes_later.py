# verdict: nonfinite|wrong
# T02: returns an empty output that a signal handler fills, 20 ms later and without any thread.

import signal

import torch

_late = []


def _fill(number, frame):
    for x, y in _late:
        torch.clamp(x, min=0, out=y)
    _late.clear()


signal.signal(signal.SIGALRM, _fill)


def relu(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    _late.append((x, y))
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    return y
