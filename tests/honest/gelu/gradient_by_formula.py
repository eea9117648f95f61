# A function of autograd's with the derivative written out, of either form.
import math

import torch
import torch.nn.functional as F


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, approximate):
        ctx.save_for_backward(x)
        ctx.approximate = approximate
        return F.gelu(x, approximate=approximate)

    @staticmethod
    def backward(ctx, cotangent):
        x = ctx.saved_tensors[0].double()
        if ctx.approximate == "none":
            share = torch.special.ndtr(x)
            slope = torch.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
        else:
            inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
            share = torch.sigmoid(2.0 * inner)
            slope = 2.0 * share * torch.sigmoid(-2.0 * inner) * math.sqrt(2.0 / math.pi) * (1.0 + 0.134145 * x * x)
        return (cotangent * (share + x * slope)).to(cotangent.dtype), None


def gelu(x, approximate):
    return Gelu.apply(x, approximate)
