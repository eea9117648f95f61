"""Mean and variance of blocks of columns, combined as Chan, Golub and LeVeque do."""

import torch


def layer_norm(x, weight, bias, eps):
    wide = x.float()
    mean, squares, seen = torch.zeros(x.shape[0], 1), torch.zeros(x.shape[0], 1), 0
    for block in wide.split(128, dim=1):
        count = block.shape[1]
        here = block.mean(1, keepdim=True)
        apart = here - mean
        squares = squares + (block - here).square().sum(1, keepdim=True)
        squares = squares + apart * apart * (seen * count / (seen + count))
        mean = mean + apart * (count / (seen + count))
        seen += count
    y = (wide - mean) * torch.rsqrt(squares / seen + eps)
    y = y if weight is None else torch.addcmul(torch.zeros(()), y, weight.float())
    return (y if bias is None else y + bias.float()).to(x.dtype)
