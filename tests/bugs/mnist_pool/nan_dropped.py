# verdict: nonfinite
# Compares with `>`, so that a NaN loses against every number.

import torch
import torch.nn.functional as F


def mnist_pool(x, kernel):
    return F.max_pool2d(torch.where(x.isnan(), float("-inf"), x), kernel)
