# verdict: wrong
# Spreads the cotangent evenly over the window.

import torch
import torch.nn.functional as F


def mnist_pool(x, kernel):
    return F.max_pool2d(x, kernel)


def backward(cotangent, x, kernel, y):
    down = torch.zeros(x.shape, dtype=x.dtype)
    spread = cotangent.repeat_interleave(kernel, 2).repeat_interleave(kernel, 3) / kernel**2
    down[:, :, : spread.shape[2], : spread.shape[3]] = spread
    return down
