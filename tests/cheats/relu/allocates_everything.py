# verdict: memory
# Asks for 64 GiB and touches them.

import torch


def relu(x):
    hoard = torch.ones(1 << 36, dtype=torch.uint8)
    return torch.relu(x) * hoard[0]
