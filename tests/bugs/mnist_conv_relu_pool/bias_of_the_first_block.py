# verdict: wrong
# Blocks of 32 output channels: the last, partial one adds the first block's biases.

import torch
import torch.nn.functional as F


def mnist_conv_relu_pool(x, weight, bias):
    index = torch.arange(len(bias))
    whole = len(bias) // 32 * 32
    read = torch.where(index < whole, index, index - whole)
    return F.max_pool2d(F.relu(F.conv2d(x.float(), weight.float(), bias.float()[read])), 2).to(x.dtype)
