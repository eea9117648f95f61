# verdict: wrong
# Writes the gradient with the pitch of the columns that fill windows, where an image may have more.

import torch
import torch.nn.functional as F


def mnist_pool(x, kernel):
    return F.max_pool2d(x, kernel)


def backward(cotangent, x, kernel, y):
    rows, columns = y.shape[2] * kernel, y.shape[3] * kernel
    part = x[:, :, :rows, :columns]
    _, where = F.max_pool2d(part, kernel, return_indices=True)
    down = torch.zeros(x.shape, dtype=x.dtype).flatten(2)
    down.scatter_(2, where.flatten(2), cotangent.flatten(2))
    return down.view(x.shape)
