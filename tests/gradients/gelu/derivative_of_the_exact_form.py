# verdict: wrong
# Has one derivative for both forms.

import torch
import torch.nn.functional as F


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, approximate):
        ctx.save_for_backward(x)
        return F.gelu(x, approximate=approximate)

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return torch.ops.aten.gelu_backward(cotangent, x), None


def gelu(x, approximate):
    return Gelu.apply(x, approximate)
