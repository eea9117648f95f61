# verdict: inputs_changed
# #17: subtracts the maximum from its input.

import torch


def softmax(x):
    x.sub_(x.amax(1, keepdim=True))
    return torch.softmax(x, 1)
