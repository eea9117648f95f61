# verdict: wrong
# Every gradient is a view of one buffer: the next backward overwrites what has been accumulated.

import torch

_buffer = torch.zeros(1 << 22)


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.clamp_min(0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        (y,) = ctx.saved_tensors
        down = _buffer[: y.numel()].view(y.shape)
        torch.mul(cotangent, y > 0, out=down)
        return down


def relu(x):
    return Relu.apply(x.float()).to(x.dtype)
