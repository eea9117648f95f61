# verdict: wrong
# Takes the larger of two columns, but only the upper row of a window.

import torch.nn.functional as F


def mnist_conv_relu_pool(x, weight, bias):
    y = F.relu(F.conv2d(x, weight, bias))
    rows = y.shape[2] // 2
    return F.max_pool2d(y[:, :, : 2 * rows : 2], (1, 2))
