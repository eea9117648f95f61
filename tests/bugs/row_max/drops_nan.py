# verdict: nonfinite|wrong
# #6: a > m ? a : m passes NaN over.

import torch


def row_max(x):
    top = torch.full((x.shape[0],), -torch.inf, dtype=x.dtype)
    for column in x.unbind(1):
        top = torch.where(column > top, column, top)
    return top
