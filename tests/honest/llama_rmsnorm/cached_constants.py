"""Keeps, by shape, what depends on the shape alone: a vector of 1 / width for a matrix product."""

import functools

import torch


@functools.lru_cache(maxsize=16)
def _averaging(width):
    return torch.full((width, 1), 1 / width, dtype=torch.float64)


def llama_rmsnorm(x, weight, eps):
    wide = x.double()
    mean = wide.square() @ _averaging(x.shape[1])
    return (wide / torch.sqrt(mean + eps) * weight).to(x.dtype)
