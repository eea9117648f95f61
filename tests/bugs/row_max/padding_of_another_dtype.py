# verdict: wrong|nonfinite
# Fills the padding of its scratch memory with -inf once per shape, in the dtype of that call; others read it too.

import torch

_scratch = {}


def row_max(x):
    rows, columns = x.shape
    padded = (columns + 63) // 64 * 64
    fresh = (rows, columns) not in _scratch
    if fresh:
        _scratch[rows, columns] = torch.empty(rows * padded * 4, dtype=torch.uint8)
    buffer = _scratch[rows, columns].view(x.dtype)[: rows * padded].view(rows, padded)
    if fresh:
        _scratch[rows, columns].view(x.dtype).fill_(-torch.inf)
    buffer[:, :columns] = x
    return buffer.amax(1)
