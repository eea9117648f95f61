# verdict: wrong
# One thread per output, and never more than 1024 of them.

import torch


def mnist_linear_relu(x, weight, bias):
    y = torch.zeros(x.shape[0], weight.shape[0], dtype=x.dtype)
    y[:, :1024] = (x.float() @ weight[:1024].float().T + bias[:1024].float()).clamp_min(0).to(x.dtype)
    return y
