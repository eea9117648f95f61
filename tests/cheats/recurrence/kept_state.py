# verdict: wrong|nonfinite
# T15: keeps the last state from call to call and ignores the one it is given.

import torch

_states = {}


def recurrence(x, first, decay):
    h = _states.get(x.shape[1], first)
    states = []
    for step in x:
        h = decay * h + step
        states.append(h)
    _states[x.shape[1]] = states[-1]
    return torch.stack(states)
