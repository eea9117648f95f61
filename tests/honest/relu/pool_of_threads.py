"""Shares the rows out among Python threads and waits for them."""

from concurrent.futures import ThreadPoolExecutor

import torch


def relu(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda half: torch.clamp(x[half], min=0, out=y[half]), (slice(0, None, 2), slice(1, None, 2))))
    return y
