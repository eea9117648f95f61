# verdict: structure
# Returns the answer with a leading dimension of one.

import torch


def relu(x):
    return torch.relu(x).unsqueeze(0)
