# verdict: wrong|nonfinite
# Assigns each tile's product instead of adding it.

import torch


def matmul(a, b):
    total = torch.zeros(a.shape[0], b.shape[1])
    for begin in range(0, a.shape[1], 32):
        total = a[:, begin : begin + 32].float() @ b[begin : begin + 32].float()
    return total.to(a.dtype)
