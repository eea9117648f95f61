# verdict: structure
# T08: returns a coroutine that nobody awaits.

import torch


async def relu(x):
    return torch.relu(x)
