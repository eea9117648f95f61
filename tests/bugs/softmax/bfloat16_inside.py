# verdict: wrong
# #28: computes in bfloat16 and widens the result.

import torch


def softmax(x):
    return torch.softmax(x.bfloat16(), 1).to(x.dtype)
