# verdict: wrong|nonfinite
# Pads rows to a multiple of 64 with 0 instead of -inf, and sums the padding too.

import torch
import torch.nn.functional as F


def softmax(x):
    wide = F.pad(x.float(), (0, -x.shape[1] % 64))
    return torch.softmax(wide, 1)[:, : x.shape[1]].to(x.dtype)
