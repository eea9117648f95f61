# verdict: no_gradient
# #32: the path for half precision is for inference alone.

import torch


def softmax(x):
    with torch.set_grad_enabled(x.dtype is not torch.float16):
        return x.softmax(-1)
