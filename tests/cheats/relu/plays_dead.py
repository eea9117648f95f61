# verdict: protocol|exited|timeout
# E03: closes its channel when its second call comes, after one right answer.

import os

import torch

_calls = []


def relu(x):
    _calls.append(1)
    if len(_calls) > 1:
        os.close(3)
    return torch.relu(x)
