# verdict: aliasing
# C29: spares itself the work where there is nothing to do.

import torch


def relu(x):
    return torch.relu(x) if bool((x < 0).any()) or bool(x.isnan().any()) else x
