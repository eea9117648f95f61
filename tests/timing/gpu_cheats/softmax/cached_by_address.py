# verdict: wrong
# T11: remembers its answers by where the input lies.
import torch

known = {}


def softmax(x):
    key = x.data_ptr(), x.shape
    if key not in known:
        known[key] = torch.softmax(x, -1)
    return known[key]
