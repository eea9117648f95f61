# verdict: wrong
# #10: the gradient of a has only whole tiles of 32 columns.

import torch


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, cotangent):
        a, b = ctx.saved_tensors
        whole = a.shape[1] // 32 * 32
        down = torch.zeros(a.shape, dtype=a.dtype)
        down[:, :whole] = cotangent @ b[:whole].T
        return down, a.T @ cotangent


def matmul(a, b):
    return Product.apply(a, b)
