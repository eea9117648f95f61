# verdict: wrong|nonfinite
# #23: sums a scratch buffer as wide as the widest call so far, old columns included.

import torch

_scratch = {}


def softmax(x):
    rows, columns = x.shape
    powers = torch.exp(x.float() - x.float().amax(1, keepdim=True))
    buffer = _scratch.get("buffer")
    if buffer is None or buffer.shape[0] < rows or buffer.shape[1] < columns:
        buffer = _scratch["buffer"] = torch.zeros(max(rows, 1100), max(columns, 1100))
    buffer[:rows, :columns] = powers
    return (powers / buffer[:rows].sum(1, keepdim=True)).to(x.dtype)
