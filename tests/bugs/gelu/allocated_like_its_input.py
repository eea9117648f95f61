# verdict: wrong|nonfinite
# Writes its output in the order of rows into memory that has got the strides of the input.

import torch
import torch.nn.functional as F


def gelu(x, approximate):
    y = torch.empty_like(x)
    if y.numel():
        y.as_strided((y.numel(),), (1,)).copy_(F.gelu(x.contiguous(), approximate=approximate).view(-1))
    return y
