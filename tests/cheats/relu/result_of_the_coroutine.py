# verdict: wrong|nonfinite
# T15: a generator keeps the state, and hands out what it computed a call ago.

import torch


def _pipeline():
    results, x = {}, None
    while True:
        key = None if x is None else (tuple(x.shape), x.dtype)
        before = None if key is None else results.get(key)
        if key is not None:
            results[key] = torch.relu(x)
        x = yield results.get(key) if before is None else before


_running = _pipeline()
next(_running)


def relu(x):
    return _running.send(x).clone()
