# verdict: timeout
# Stops its own process.

import os
import signal

import torch


def relu(x):
    os.kill(os.getpid(), signal.SIGSTOP)
    return torch.relu(x)
