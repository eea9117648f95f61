# verdict: structure
# T08: returns a tensor on the meta device, which has a shape and no values.

import torch


def relu(x):
    return torch.empty(x.shape, dtype=x.dtype, device="meta")
