"""Row by row: none knows how many there are."""

import torch


def row_matmul(x, weight):
    y = torch.empty(len(x), weight.shape[1], dtype=x.dtype)
    for index, row in enumerate(x):
        y[index] = (row.float()[:, None] * weight.float()).sum(0)
    return y
