# verdict: wrong
# Takes for positive what has any bit set and is not below zero: negative zero is such a number.

import torch


def positive_part(x):
    same_size = torch.int32 if x.dtype == torch.float32 else torch.int16
    return torch.relu(x), (x.contiguous().view(same_size) != 0) & (x >= 0)
