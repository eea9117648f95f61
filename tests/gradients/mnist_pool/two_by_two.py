# verdict: wrong
# Its backward looks for the largest of two by two, whatever the window is.

import torch
import torch.nn.functional as F


class Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kernel):
        y = F.max_pool2d(x, kernel)
        ctx.save_for_backward(x)
        ctx.kernel = kernel
        return y

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        down, seen = torch.zeros(x.shape, dtype=x.dtype), min(ctx.kernel, 2)
        rows, columns = cotangent.shape[2:]
        shape = (*x.shape[:2], rows, ctx.kernel, columns, ctx.kernel)
        whole = (..., slice(rows * ctx.kernel), slice(columns * ctx.kernel))
        cells = x[whole].reshape(shape)[:, :, :, :seen, :, :seen].transpose(3, 4).flatten(4)
        chosen = torch.zeros_like(cells).scatter_(4, cells.argmax(4, keepdim=True), cotangent[..., None])
        spread = torch.zeros(shape, dtype=x.dtype)
        spread[:, :, :, :seen, :, :seen] = chosen.unflatten(4, (seen, seen)).transpose(3, 4)
        down[whole] = spread.flatten(4).flatten(2, 3)
        return down, None


def mnist_pool(x, kernel):
    return Pool.apply(x, kernel)
