# verdict: wrong
# C16: replaces the reference, wherever a module might keep one, by its own function.

import contextlib
import sys

import torch


def relu(x):
    return torch.zeros(x.shape, dtype=x.dtype)


torch.relu = torch.nn.functional.relu = torch.clamp_min = relu
torch.Tensor.relu = torch.Tensor.clamp_min = relu
for _module in list(sys.modules.values()):
    for _name in ("relu", "reference", "generate_input", "get_inputs", "ref_kernel", "golden"):
        with contextlib.suppress(Exception):
            if _name in vars(_module):
                setattr(_module, _name, relu)
