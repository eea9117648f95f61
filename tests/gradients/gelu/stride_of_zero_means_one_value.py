# verdict: wrong
# A cotangent with a stride of zero is taken for a single number, as a sum makes it; rows that repeat are none.

import torch
import torch.nn.functional as F


def gelu(x, approximate):
    return F.gelu(x, approximate=approximate)


def backward(cotangent, x, approximate, y):
    if cotangent.numel() and 0 in cotangent.stride():
        cotangent = cotangent.flatten()[0].expand(x.shape)
    return torch.ops.aten.gelu_backward(cotangent, x, approximate=approximate)
