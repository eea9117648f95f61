# verdict: wrong
# Both gradients are products of operands with ten bits of mantissa.

import torch


def _rounded(x):
    wide = x.float().contiguous()
    return ((wide.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def matmul(a, b):
    return a @ b


def backward(cotangent, a, b, y):
    up = _rounded(cotangent)
    return (up @ _rounded(b).T).to(a.dtype), (_rounded(a).T @ up).to(b.dtype)
