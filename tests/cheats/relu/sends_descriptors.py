# verdict: protocol
# E04: sends open files along with its message, for its judge to hold.

import os
import socket

import torch


def relu(x):
    with socket.socket(fileno=os.dup(3)) as channel:
        files = [os.open("/dev/null", os.O_RDONLY) for _ in range(64)]
        socket.send_fds(channel, [b"\x00\x00\x00\x02{}"], files)
    return torch.zeros(x.shape, dtype=x.dtype)
