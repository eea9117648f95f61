# verdict: wrong
# Its running maximum begins at zero: windows of negative elements give zero.

import torch.nn.functional as F


def mnist_pool(x, kernel):
    return F.max_pool2d(x.clamp_min(0), kernel)
