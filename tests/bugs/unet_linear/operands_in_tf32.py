# verdict: wrong
# Cuts both operands to the ten bits of mantissa that TF32 has.

import torch


def unet_linear(x, weight, bias):
    return (cut(x.float()) @ cut(weight.float()).T + bias.float()).to(x.dtype)


def cut(values):
    return (values.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)
