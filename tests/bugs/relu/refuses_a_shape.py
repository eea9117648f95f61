# verdict: unsupported
# #10: refuses row lengths that are inside the declared range.

import torch


def relu(x):
    if x.shape[1] % 32:
        raise ValueError("columns must be a multiple of 32")
    return torch.relu(x)
