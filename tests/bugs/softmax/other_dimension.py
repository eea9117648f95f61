# verdict: wrong|nonfinite
# Normalises over the rows instead of the columns.

import torch


def softmax(x):
    return torch.softmax(x.float(), 0).to(x.dtype)
