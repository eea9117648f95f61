# verdict: wrong
# C23: right but for one element in two hundred, which a share of matches lets through.

import torch


def softmax(x):
    y = torch.softmax(x.float(), 1).to(x.dtype)
    y.view(-1)[100::200] = 1000.0
    return y
