# verdict: wrong|nonfinite
# Loads zero beyond the end of a row, which is larger than a row of negative numbers.

import torch.nn.functional as F


def row_max(x):
    return F.pad(x, (0, -x.shape[1] % 64)).amax(1)
