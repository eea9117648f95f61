# verdict: unsupported
# #29: takes the maximum of all elements, also where there are none.

import torch


def log_softmax(x):
    wide = x.float()
    shift = wide.max()  # of an empty tensor: an exception
    return torch.log_softmax(wide - shift + shift, 1).to(x.dtype)
