# verdict: exited|protocol|timeout
# After its first answer it shuts its channel, so that it is never told to stand still, and burns all processors.
import os
import socket
import threading
import time

import torch


def burn():
    while True:
        pass


def later():
    time.sleep(0.02)
    os._exit = lambda code: time.sleep(10**6)
    socket.socket(fileno=os.dup(3)).shutdown(socket.SHUT_RDWR)
    for _ in range(7):
        if os.fork() == 0:
            burn()
    burn()


count = 0


def relu(x):
    global count
    count += 1
    if count == 12:
        threading.Thread(target=later, daemon=True).start()
    return torch.relu(x)
