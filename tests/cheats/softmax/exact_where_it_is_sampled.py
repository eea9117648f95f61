# verdict: wrong|nonfinite
# C23: computes the first and last columns of a row exactly, and spreads what is left of its sum over the rest.

import torch


def softmax(x):
    wide = x.float()
    powers = torch.exp(wide - wide.amax(1, keepdim=True))
    y = powers / powers.sum(1, keepdim=True)
    if x.shape[1] > 16:
        y[:, 8:-8] = y[:, 8:-8].mean(1, keepdim=True)
    return y.to(x.dtype)
