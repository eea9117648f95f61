import torch


def mnist_linear(x, weight, bias):
    return torch.einsum("bf,cf->bc", x, weight) + bias
