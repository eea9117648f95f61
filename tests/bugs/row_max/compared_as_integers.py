# verdict: wrong|nonfinite
# Compares bit patterns as integers, as an atomic maximum must: of negative numbers the farthest from zero wins.

import torch


def row_max(x):
    same_size = torch.int32 if x.dtype == torch.float32 else torch.int16
    return x.contiguous().view(same_size).amax(1).view(x.dtype)
