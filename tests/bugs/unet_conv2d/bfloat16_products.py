# verdict: wrong
# Multiplies in bfloat16 where float32 is asked for.

import torch.nn.functional as F


def unet_conv2d(x, weight, bias, stride, padding):
    y = F.conv2d(x.bfloat16().float(), weight.bfloat16().float(), bias.float(), stride, padding)
    return y.to(x.dtype)
