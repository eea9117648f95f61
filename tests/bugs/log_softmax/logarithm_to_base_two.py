# verdict: wrong|nonfinite
# Uses the quick logarithm, of base two, and forgets to convert.

import torch


def log_softmax(x):
    wide = x.float() - x.float().amax(1, keepdim=True)
    return (wide - torch.log2(torch.exp(wide).sum(1, keepdim=True))).to(x.dtype)
