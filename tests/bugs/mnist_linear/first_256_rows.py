# verdict: wrong
# One block of 256 rows: later ones stay zero.

import torch


def mnist_linear(x, weight, bias):
    y = torch.zeros(x.shape[0], weight.shape[0], dtype=x.dtype)
    y[:256] = (x[:256].float() @ weight.float().T + bias.float()).to(x.dtype)
    return y
