# verdict: wrong|nonfinite
# The block is the power of two from n - 1 on, not from n on: for n = 2^k + 1 the last column is not part of the sum.

import math

import torch


def log_softmax(x):
    n = x.shape[1]
    block = 2 ** math.ceil(math.log2(n - 1)) if n > 1 else 1
    shifted = x.float() - x.float().amax(1, keepdim=True)
    return (shifted - torch.log(torch.exp(shifted[:, :block]).sum(1, keepdim=True))).to(x.dtype)
