# verdict: wrong
# A leaky ReLU: a hundredth of what is negative comes through.

import torch.nn.functional as F


def relu(x):
    return F.leaky_relu(x)
