# verdict: aliasing
# C29: returns the input under another tensor object, through numpy and back.

import torch


def relu(x):
    return torch.frombuffer(memoryview(x.view(torch.uint8).numpy()), dtype=x.dtype).view(x.shape)
