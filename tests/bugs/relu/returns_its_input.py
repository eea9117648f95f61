# verdict: inputs_changed
# #17: works in place and returns the input itself.

import torch


def relu(x):
    return torch.relu_(x)
