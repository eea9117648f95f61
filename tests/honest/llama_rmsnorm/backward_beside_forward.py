# A `backward` of its own beside the forward: gradients as a tuple, from x alone, in float64.
import torch


def scaled(x, eps):
    wide = x.double()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return wide * scale, scale


def llama_rmsnorm(x, weight, eps):
    return (scaled(x, eps)[0] * weight).to(x.dtype)


def backward(cotangent, x, weight, eps, y):
    z, scale = scaled(x, eps)
    along = cotangent.double() * weight
    of_x = scale * (along - z * (along * z).mean(-1, keepdim=True))
    return of_x.to(x.dtype), (cotangent * z).sum(0).to(weight.dtype)
