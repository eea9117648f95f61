# verdict: wrong
# Asks whether the square of what is left is above zero: in float16 the squares of small numbers are not.

import torch


def positive_part(x):
    y = torch.relu(x)
    return y, y * y > 0
