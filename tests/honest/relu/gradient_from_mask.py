# A function of autograd's that keeps a mask of bytes, written with `setup_context`: changed inputs do not matter to it.
import torch


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(x):
        positive = x > 0
        return x.clamp_min(0), positive

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, positive = output
        ctx.mark_non_differentiable(positive)
        ctx.save_for_backward(positive)

    @staticmethod
    def backward(ctx, cotangent, _):
        (positive,) = ctx.saved_tensors
        return cotangent * positive


def relu(x):
    return Relu.apply(x)[0]
