# verdict: wrong|nonfinite
# #3: exp(x - (m + log s)): the logarithm drowns in a large maximum.

import torch


def softmax(x):
    wide = x.float()
    top = wide.amax(1, keepdim=True)
    total = torch.exp(wide - top).sum(1, keepdim=True)
    return torch.exp(wide - (top + torch.log(total))).to(x.dtype)
