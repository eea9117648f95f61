# verdict: wrong|nonfinite
# #40: more than 2048 columns need more shared memory than there is: nothing is launched, and the output stays zero.

import torch


def softmax(x):
    y = torch.zeros(x.shape, dtype=x.dtype)
    if x.shape[1] <= 2048:
        y.copy_(torch.softmax(x.float(), 1))
    return y
