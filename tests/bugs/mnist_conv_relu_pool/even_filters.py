# verdict: wrong
# Is unrolled for filters of odd size: even ones from 4 on lose their last row.

import torch.nn.functional as F


def mnist_conv_relu_pool(x, weight, bias):
    k = weight.shape[-1]
    if k > 2 and k % 2 == 0:
        weight = weight.clone()
        weight[:, :, -1] = 0
    return F.max_pool2d(F.relu(F.conv2d(x, weight, bias)), 2)
