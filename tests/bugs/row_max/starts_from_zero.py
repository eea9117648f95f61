# verdict: wrong|nonfinite
# Starts the maximum from zero instead of -inf.

import torch


def row_max(x):
    top = torch.zeros(x.shape[0], dtype=x.dtype)
    for column in x.unbind(1):
        top = torch.maximum(top, column)
    return top
