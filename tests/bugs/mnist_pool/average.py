# verdict: wrong
# Averages a window instead of taking its largest element.

import torch.nn.functional as F


def mnist_pool(x, kernel):
    return F.avg_pool2d(x, kernel)
