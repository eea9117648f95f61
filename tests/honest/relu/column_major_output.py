"""Returns an output of the right shape that is dense in the other order."""

import torch


def relu(x):
    return torch.relu(x.t().contiguous()).t()
