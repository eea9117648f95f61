# verdict: structure
# Its gradient is float32, whatever the input is.

import torch
import torch.nn.functional as F


def silu(x):
    return F.silu(x)


def backward(cotangent, x, y):
    return torch.ops.aten.silu_backward(cotangent.float(), x.float())
