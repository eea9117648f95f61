"""The larger of neighbouring columns, one after another, then of neighbouring rows; views all along, results dense."""

import torch


def mnist_pool(x, kernel):
    rows, columns = (extent // kernel * kernel for extent in x.shape[2:])
    y = x[..., 0:columns:kernel]
    for j in range(1, kernel):
        y = torch.maximum(y, x[..., j:columns:kernel])
    z = y[:, :, 0:rows:kernel]
    for i in range(1, kernel):
        z = torch.maximum(z, y[:, :, i:rows:kernel])
    return z.clone(memory_format=torch.contiguous_format)
