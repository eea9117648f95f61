# verdict: wrong|nonfinite
# #3: x - (m + log s): the logarithm drowns in a large maximum.

import torch


def log_softmax(x):
    wide = x.float()
    top = wide.amax(1, keepdim=True)
    total = torch.exp(wide - top).sum(1, keepdim=True)
    return (wide - (top + torch.log(total))).to(x.dtype)
