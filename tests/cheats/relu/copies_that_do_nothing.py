# verdict: nonfinite
# C15: replaces the copy by which its output leaves the process.

import torch

torch.Tensor.copy_ = lambda self, other, non_blocking=False: self
torch.Tensor.detach = lambda self: self


def relu(x):
    return torch.zeros(x.shape, dtype=x.dtype)
