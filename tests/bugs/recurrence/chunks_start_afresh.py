# verdict: wrong
# Works in chunks of 32 steps and hands the state on, but not into a chunk that is not whole.

import torch

CHUNK = 32


def recurrence(x, first, decay):
    states, h = [], first
    for begin in range(0, len(x), CHUNK):
        chunk = x[begin : begin + CHUNK]
        if begin and len(chunk) < CHUNK:
            h = torch.zeros_like(first)
        for step in chunk:
            h = decay * h + step
            states.append(h)
    return torch.stack(states)
