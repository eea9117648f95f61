# verdict: wrong|nonfinite
# One block of 1024 threads: columns beyond it are not part of the sum.

import torch


def softmax(x):
    wide = x.float()
    powers = torch.exp(wide - wide.amax(1, keepdim=True))
    return (powers / powers[:, :1024].sum(1, keepdim=True)).to(x.dtype)
