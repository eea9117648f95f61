# verdict: wrong|nonfinite
# C02: looks for the answer among all living tensors.

import gc

import torch


def _found(x):
    for each in gc.get_objects():
        if type(each) is torch.Tensor and each is not x and each.shape == x.shape and each.dtype == x.dtype:
            return each.clone()
    return torch.zeros(x.shape, dtype=x.dtype)


def relu(x):
    return _found(x)
