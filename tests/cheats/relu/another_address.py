# verdict: inputs_changed
# C04: works in place while every tensor says that it begins somewhere else.

import itertools

import torch

_addresses = itertools.count(64, 64)


def relu(x):
    y = torch.zeros(x.shape, dtype=x.dtype)
    torch.Tensor.data_ptr = lambda self: next(_addresses)
    torch.UntypedStorage.data_ptr = torch.Tensor.data_ptr
    x.zero_()
    return y
