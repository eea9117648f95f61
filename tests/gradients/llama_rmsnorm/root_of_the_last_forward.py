# verdict: wrong|nonfinite
# The inverse root lies in the module, one per shape: that of the last forward counts.
import torch

roots = {}


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        wide = x.float()
        root = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        roots[x.shape] = root
        ctx.save_for_backward(x, weight)
        return (wide * root * weight.float()).to(x.dtype)

    @staticmethod
    def backward(ctx, cotangent):
        x, weight = ctx.saved_tensors
        root = roots[x.shape]
        z, d = x.float() * root, cotangent.float() * weight.float()
        of_x = root * (d - z * (d * z).mean(-1, keepdim=True))
        return of_x.to(x.dtype), (cotangent.float() * z).sum(0).to(weight.dtype), None


def llama_rmsnorm(x, weight, eps):
    return RMSNorm.apply(x, weight, eps)
