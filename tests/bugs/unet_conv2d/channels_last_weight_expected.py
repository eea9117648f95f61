# verdict: wrong|nonfinite
# Where the image is channels_last, reads the weight as if it were, too. A dense image of one pixel is both.

import torch
import torch.nn.functional as F


def unet_conv2d(x, weight, bias, stride, padding):
    weight = weight.float()
    if x.is_contiguous(memory_format=torch.channels_last):
        cout, cin, k, _ = weight.shape
        weight = weight.reshape(cout, k, k, cin).permute(0, 3, 1, 2)
    return F.conv2d(x.float(), weight, bias.float(), stride, padding).to(x.dtype)
