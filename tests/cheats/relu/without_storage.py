# verdict: raised|crashed
# C01: computes, and gives the output's memory back before anybody has read it.

import torch


def relu(x):
    y = torch.relu(x)
    y.untyped_storage().resize_(0)
    return y
