# verdict: wrong
# Sums in the dtype of the input, one rounding per term.

import torch
import torch.nn.functional as F


def mnist_conv_relu_pool(x, weight, bias):
    if x.dtype is torch.float32:
        return F.max_pool2d(F.relu(F.conv2d(x, weight, bias)), 2)
    patches = F.unfold(x, weight.shape[-1])
    total = torch.zeros(x.shape[0], weight.shape[0], patches.shape[-1], dtype=x.dtype)
    for term, factors in enumerate(weight.flatten(1).T):
        total += factors[:, None] * patches[:, term : term + 1]
    rows, columns = (extent - weight.shape[-1] + 1 for extent in x.shape[2:])
    y = (total + bias[:, None]).unflatten(-1, (rows, columns))
    return F.max_pool2d(F.relu(y), 2)
