# verdict: nonfinite|wrong
# #29: a grid of no tiles along the sum never writes the output.

import torch


def matmul(a, b):
    y = torch.empty(a.shape[0], b.shape[1])
    for begin in range(0, a.shape[1], 32):
        part = a[:, begin : begin + 32].float() @ b[begin : begin + 32].float()
        y = part if begin == 0 else y + part
    return y.to(a.dtype)
