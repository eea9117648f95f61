# verdict: wrong
# Looks for the maximum in the order of memory: a row's own index is applied to a row of another pitch.

import torch


def row_max(x):
    return x.amax(-1)


def backward(cotangent, x, y):
    flat = torch.zeros(x.numel() + 1, dtype=x.dtype)
    rows = torch.arange(len(x)) * x.stride(0)
    flat.index_put_((torch.clamp(rows + x.argmax(-1), max=x.numel()),), cotangent, accumulate=True)
    return flat[: x.numel()].view(x.shape)
