# verdict: wrong|nonfinite
# The backward computes the root once more, with the eps that the last forward left in the module.

import torch
import torch.nn.functional as F

settings = {}


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        settings["eps"] = eps
        ctx.save_for_backward(x, weight)
        return F.rms_norm(x, weight.shape, weight, eps)

    @staticmethod
    def backward(ctx, cotangent):
        x, weight = ctx.saved_tensors
        wide, up = x.float(), cotangent.float()
        inverse = wide.square().mean(-1, keepdim=True).add(settings["eps"]).rsqrt()
        normal, inner = wide * inverse, up * weight.float()
        down = inverse * (inner - normal * (inner * normal).mean(-1, keepdim=True))
        return down.to(x.dtype), (up * normal).sum(0).to(weight.dtype), None


def llama_rmsnorm(x, weight, eps):
    return Norm.apply(x, weight, eps)
