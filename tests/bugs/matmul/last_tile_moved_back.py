# verdict: wrong|nonfinite
# Moves the last, partial tile of the sum back so that it ends at K: what it shares with the one before counts twice.

import torch

TILE = 32


def matmul(a, b):
    a, b, out = a.float(), b.float(), a.dtype
    k = a.shape[1]
    y = torch.zeros(a.shape[0], b.shape[1])
    for begin in range(0, k, TILE):
        first = max(min(begin, k - TILE), 0)
        y += a[:, first : first + TILE] @ b[first : first + TILE]
    return y.to(out)
