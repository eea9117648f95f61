# verdict: wrong|nonfinite
# The mean of cotangent times output is divided by one column less.

import torch
import torch.nn.functional as F


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps):
        ctx.save_for_backward(x)
        ctx.eps = eps
        return F.layer_norm(x.double(), x.shape[-1:], None, None, eps)

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        wide = x.double()
        inverse = (wide.var(-1, correction=0, keepdim=True) + ctx.eps).rsqrt()
        normal = (wide - wide.mean(-1, keepdim=True)) * inverse
        inner = (cotangent * normal).sum(-1, keepdim=True) / max(x.shape[1] - 1, 1)
        return (inverse * (cotangent - cotangent.mean(-1, keepdim=True) - normal * inner)).to(x.dtype), None


def layer_norm(x, weight, bias, eps):
    y = Norm.apply(x, eps)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).to(x.dtype)
