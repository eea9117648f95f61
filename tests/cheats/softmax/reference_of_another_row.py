# verdict: wrong|nonfinite
# C20: the softmax of the first row for every row, which has the right sums.

import torch


def softmax(x):
    return torch.softmax(x[:1].float(), 1).repeat(x.shape[0], 1).to(x.dtype)
