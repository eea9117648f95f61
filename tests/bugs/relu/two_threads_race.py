# verdict: wrong|nonfinite
# #11: returns once the faster of its two threads is done.

import threading
import time

import torch


def relu(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    done = threading.Event()

    def work(rows, delay):
        time.sleep(delay)
        torch.clamp(x[rows], min=0, out=y[rows])
        done.set()

    for rows, delay in ((slice(0, None, 2), 0.0), (slice(1, None, 2), 0.05)):
        threading.Thread(target=work, args=(rows, delay), daemon=True).start()
    done.wait()
    return y
