# verdict: wrong|nonfinite
# #8: rounds the running sum to the inputs' dtype after every tile.

import torch


def matmul(a, b):
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float16)
    for begin in range(0, a.shape[1], 8):
        total += (a[:, begin : begin + 8].float() @ b[begin : begin + 8].float()).half()
    return total.to(a.dtype)
