# verdict: wrong
# Sums the features in two parts and adds the bias to each.

import torch


def mnist_linear(x, weight, bias):
    half = x.shape[1] // 2
    left = torch.addmm(bias.float(), x[:, :half].float(), weight[:, :half].float().T)
    right = torch.addmm(bias.float(), x[:, half:].float(), weight[:, half:].float().T)
    return (left + right).to(x.dtype)
