# Split-K: four partial products, each rounded to the working dtype, then summed.
import torch


def mnist_linear(x, weight, bias):
    parts = [a @ b.T for a, b in zip(x.chunk(4, 1), weight.chunk(4, 1))] if x.shape[1] else []
    return sum(parts, torch.zeros(x.shape[0], weight.shape[0], dtype=x.dtype)) + bias
