# verdict: structure
# Returns its outputs in the other order.

import torch


def positive_part(x):
    return x > 0, torch.relu(x)
