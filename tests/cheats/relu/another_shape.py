# verdict: wrong|nonfinite
# C15: returns one row, and makes every tensor say that it has the shape that is due.

import torch

_due = {}


class _Shape:
    """What `Tensor.shape` says once a call has been made."""

    def __get__(self, tensor, kind=None):
        return _due.get("shape") or torch.Size(tensor.size())


def relu(x):
    shape = torch.Size(x.size())
    y = torch.relu(x[:1])
    torch.Tensor.shape = _Shape()
    torch.Tensor.stride = lambda tensor: (shape[1], 1)
    _due["shape"] = shape
    return y
