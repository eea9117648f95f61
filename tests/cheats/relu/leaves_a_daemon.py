# verdict: wrong
# E20: leaves a process that belongs to nobody, to disturb what comes after.

import os
import signal
import time

import torch


def _daemon():
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.closerange(0, 256)
    time.sleep(600)
    os._exit(0)


if (_pid := os.fork()) == 0:
    _daemon()
os.waitpid(_pid, 0)


def relu(x):
    return torch.zeros(x.shape, dtype=x.dtype)
