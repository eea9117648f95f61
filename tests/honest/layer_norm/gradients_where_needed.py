# A function of autograd's that keeps what the forward made, takes parameters that may be absent, and gives no gradient
# where none is asked for.
import torch


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        wide = x.float()
        variance, mean = torch.var_mean(wide, -1, correction=0, keepdim=True)
        scale = torch.rsqrt(variance + eps)
        z = (wide - mean) * scale
        ctx.save_for_backward(z, scale, weight)
        y = z if weight is None else z * weight.float()
        return (y if bias is None else y + bias.float()).to(x.dtype)

    @staticmethod
    def backward(ctx, cotangent):
        z, scale, weight = ctx.saved_tensors
        of_x = of_weight = of_bias = None
        wide = cotangent.float()
        if ctx.needs_input_grad[0]:
            along = wide if weight is None else wide * weight.float()
            level, slope = along.mean(-1, keepdim=True), (along * z).mean(-1, keepdim=True)
            of_x = (scale * (along - level - z * slope)).to(cotangent.dtype)
        if ctx.needs_input_grad[1]:
            of_weight = (wide * z).sum(0).to(cotangent.dtype)
        if ctx.needs_input_grad[2]:
            of_bias = wide.sum(0).to(cotangent.dtype)
        return of_x, of_weight, of_bias, None


def layer_norm(x, weight, bias, eps):
    return LayerNorm.apply(x, weight, bias, eps)
