"""Keeps a module for each width, and gives it the weight of every call."""

import torch

_modules = {}


def llama_rmsnorm(x, weight, eps):
    key = (x.shape[1], x.dtype)
    if key not in _modules:
        _modules[key] = torch.nn.RMSNorm(x.shape[1], eps=eps, elementwise_affine=True)
    module = _modules[key]
    module.eps = eps
    with torch.no_grad():
        module.weight.copy_(weight)
        return module(x.float()).to(x.dtype)
