# A function of autograd's that keeps inputs, and makes mean and scale once more in the backward; in float32.
import torch


def normalised(x, shape, eps):
    wide = x.float().flatten(x.dim() - len(shape))
    centred = wide - wide.mean(-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return centred * scale, scale


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        z, _ = normalised(x, weight.shape, eps)
        return (z * weight.float().flatten() + bias.float().flatten()).view(x.shape).to(x.dtype)

    @staticmethod
    def backward(ctx, cotangent):
        x, weight = ctx.saved_tensors
        z, scale = normalised(x, weight.shape, ctx.eps)
        wide = cotangent.float().reshape(z.shape)
        along = wide * weight.float().flatten()
        of_x = scale * (along - along.mean(-1, keepdim=True) - z * (along * z).mean(-1, keepdim=True))
        of_weight, of_bias = ((wide * each).sum(0) for each in (z, torch.ones(())))
        found = (of_x.view(x.shape), of_weight.view(weight.shape), of_bias.view(weight.shape))
        return (*(each.to(x.dtype) for each in found), None)


def layernorm(x, weight, bias, eps):
    return LayerNorm.apply(x, weight, bias, eps)
