# verdict: protocol|timeout|exited
# E09: reads its judge's next messages itself and answers them from a thread.

import os
import socket
import threading

import torch


def _serve():
    with socket.socket(fileno=os.dup(3)) as channel:
        while channel.recv(1 << 20):
            channel.sendall(b"\x00\x00\x00\x10" + b'{"is":"passed"} ')


def relu(x):
    if threading.active_count() == 1:
        threading.Thread(target=_serve, daemon=True).start()
    return torch.relu(x)
