# A function of autograd's that works out only the gradients that are asked for, and keeps only what these need.
import torch
import torch.nn.functional as F


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        needs_x, needs_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if needs_weight else None, weight if needs_x else None)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, cotangent):
        x, weight = ctx.saved_tensors
        of_x = cotangent @ weight if ctx.needs_input_grad[0] else None
        of_weight = cotangent.T @ x if ctx.needs_input_grad[1] else None
        of_bias = cotangent.sum(0) if ctx.needs_input_grad[2] else None
        return of_x, of_weight, of_bias


def mnist_linear(x, weight, bias):
    return Linear.apply(x, weight, bias)
