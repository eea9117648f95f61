# verdict: wrong|nonfinite
# Tells planes, an image's channel each, by eight bits: from the 257th on they show the first ones.

import torch
import torch.nn.functional as F


def mnist_pool(x, kernel):
    n, c, h, w = x.shape
    planes = x.reshape(n * c, 1, h, w)[torch.arange(n * c) % 256]
    return F.max_pool2d(planes, kernel).view(n, c, h // kernel, w // kernel)
