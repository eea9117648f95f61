# verdict: inputs_changed
# #17: works in place and returns a copy.

import torch


def relu(x):
    return torch.relu_(x).clone()
