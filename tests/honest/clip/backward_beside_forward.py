# A `backward` of its own beside the forward, which works in a scratch buffer and hands out a copy.
import torch


def clip(x, limit):
    return x.clamp(-limit, limit)


def backward(cotangent, x, limit, y):
    scratch = torch.empty_like(x)
    torch.mul(cotangent, x.abs() <= limit, out=scratch)
    return [scratch.clone()]
