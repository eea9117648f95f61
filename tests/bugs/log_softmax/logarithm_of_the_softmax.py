# verdict: wrong|nonfinite
# Takes the logarithm of what has become zero.

import torch


def log_softmax(x):
    return torch.log(torch.softmax(x.float(), 1)).to(x.dtype)
