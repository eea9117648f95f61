# verdict: structure
# Pools what is left at the lower and right edges too.

import torch.nn.functional as F


def mnist_pool(x, kernel):
    return F.max_pool2d(x, kernel, ceil_mode=True)
