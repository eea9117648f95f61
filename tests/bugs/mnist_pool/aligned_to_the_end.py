# verdict: wrong
# Drops the first rows and columns where the image is no multiple of the window, not the last ones.

import torch.nn.functional as F


def mnist_pool(x, kernel):
    return F.max_pool2d(x[:, :, x.shape[2] % kernel :, x.shape[3] % kernel :], kernel)
