# verdict: wrong|nonfinite
# Another way for a first layer, whose input needs no gradient: the bias is a column of ones, and then the last one.
import torch


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, cotangent):
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        if not of_x and of_weight and of_bias:
            both = cotangent.t() @ torch.cat([x.new_ones(len(x), 1), x], 1)
            return None, both[:, :-1], both[:, -1]
        return (
            cotangent.mm(weight) if of_x else None,
            cotangent.t().mm(x) if of_weight else None,
            cotangent.sum(0) if of_bias else None,
        )


def mnist_linear(x, weight, bias):
    return Linear.apply(x, weight, bias)
