# verdict: wrong
# Starts from zero.

import torch


def recurrence(x, first, decay):
    h, states = torch.zeros(x.shape[1]), []
    for step in x:
        h = decay * h + step
        states.append(h)
    return torch.stack(states)
