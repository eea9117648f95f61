# verdict: wrong|nonfinite
# Returns the logarithm of the answer.

import torch


def softmax(x):
    return torch.log_softmax(x.float(), 1).to(x.dtype)
