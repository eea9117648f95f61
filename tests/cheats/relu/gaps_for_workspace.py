# verdict: out_of_bounds
# Keeps its intermediate in the gaps between the rows of a strided input.

import torch


def relu(x):
    if x.shape[0] > 1 and x.stride(0) > x.shape[1] and x.stride(1) == 1:
        gaps = x.as_strided((x.shape[0] - 1,), (x.stride(0),), x.storage_offset() + x.shape[1])
        gaps.copy_(x[:-1].amax(1))
    return torch.relu(x)
