# A function of autograd's that keeps its output: y * (cotangent - sum(y * cotangent)), in float32 for the half types.
import torch


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x.float(), -1).to(x.dtype)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        y, wide = ctx.saved_tensors[0].float(), cotangent.float()
        return (y * (wide - (y * wide).sum(-1, keepdim=True))).to(cotangent.dtype)


def softmax(x):
    return Softmax.apply(x)
