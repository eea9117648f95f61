# verdict: wrong
# The first element of every window gets the gradient.

import torch
import torch.nn.functional as F


def mnist_pool(x, kernel):
    return F.max_pool2d(x, kernel)


def backward(cotangent, x, kernel, y):
    down = torch.zeros(x.shape, dtype=x.dtype)
    down[:, :, : y.shape[2] * kernel : kernel, : y.shape[3] * kernel : kernel] = cotangent
    return down
