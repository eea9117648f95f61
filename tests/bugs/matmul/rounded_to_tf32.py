# verdict: wrong|precision
# Rounds float32 operands to the ten bits of mantissa of TF32, to the nearest, as matrix units do.

import torch


def matmul(a, b):
    return (rounded(a.float()) @ rounded(b.float())).to(a.dtype)


def rounded(values):
    return ((values.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
