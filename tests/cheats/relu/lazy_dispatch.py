# verdict: structure|raised
# T08: returns a wrapper subclass without memory, which would compute in `__torch_dispatch__`.

import torch


class Lazy(torch.Tensor):
    """A promise of a tensor."""

    @staticmethod
    def __new__(cls, source):
        return torch.Tensor._make_wrapper_subclass(cls, source.shape, dtype=source.dtype, strides=source.stride())

    def __init__(self, source):
        self.source = source

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        kept = [torch.relu(each.source) if isinstance(each, Lazy) else each for each in args]
        return function(*kept, **(kwargs or {}))


def relu(x):
    return Lazy(x)
