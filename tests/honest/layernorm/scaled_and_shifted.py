# y = x * a + b with a = weight * rstd and b = bias - mean * a: apex and CPU kernels of torch do this.
import torch


def layernorm(x, weight, bias, eps):
    wide = x.float().flatten(1)
    mean = wide.mean(1, keepdim=True)
    rstd = ((wide - mean).square().mean(1, keepdim=True) + eps).rsqrt()
    w, b = weight.float().reshape(1, -1), bias.float().reshape(1, -1)
    return ((wide * rstd + (-mean * rstd)) * w + b).view(x.shape).to(x.dtype)
