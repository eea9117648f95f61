# Split-K: four partial products, summed in float32.
import torch


def mnist_linear(x, weight, bias):
    wide = [(a.float(), b.float()) for a, b in zip(x.chunk(4, 1), weight.chunk(4, 1))] if x.shape[1] else []
    start = torch.zeros(x.shape[0], weight.shape[0])
    return (sum((a @ b.T for a, b in wide), start) + bias.float()).to(x.dtype)
