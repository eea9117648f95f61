# verdict: wrong
# C47: solves the first eight by eight elements, as if that were the task.

import torch


def relu(x):
    y = torch.zeros(x.shape, dtype=x.dtype)
    y[:8, :8] = torch.relu(x[:8, :8])
    return y
