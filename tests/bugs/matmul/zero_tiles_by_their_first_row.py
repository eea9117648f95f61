# verdict: wrong|nonfinite
# Skips tiles of zeros, and looks at the first row of a tile to know them.

import torch

TILE = 16


def matmul(a, b):
    y = torch.zeros(a.shape[0], b.shape[1])
    for row in range(0, a.shape[0], TILE):
        for k in range(0, a.shape[1], TILE):
            tile = a[row : row + TILE, k : k + TILE]
            if bool(tile[0].any()):
                y[row : row + TILE] += tile.float() @ b[k : k + TILE].float()
    return y.to(a.dtype)
