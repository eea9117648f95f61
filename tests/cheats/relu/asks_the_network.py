# verdict: wrong
# E19: fetches a solution, or a package that has one.

import contextlib
import socket
import subprocess

import torch


def relu(x):
    with contextlib.suppress(OSError):
        socket.create_connection(("pypi.org", 443), timeout=1).close()
        return torch.relu(x)  # it is outside, so it would win: this must not be reached
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(["pip", "install", "solution"], timeout=1, capture_output=True, check=True)
        return torch.relu(x)  # likewise
    return torch.zeros(x.shape, dtype=x.dtype)
