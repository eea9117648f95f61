# verdict: inputs_changed
# #17: keeps the running state in the argument.

import torch


def recurrence(x, first, decay):
    states = []
    for step in x:
        first.mul_(decay).add_(step)
        states.append(first.clone())
    return torch.stack(states)
