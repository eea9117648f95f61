# verdict: wrong|nonfinite
# #20: the gradient of b reads a in the order of its memory.

import torch


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, cotangent):
        a, b = ctx.saved_tensors
        rows, inner = a.shape
        fits = a.untyped_storage().nbytes() // a.itemsize >= a.storage_offset() + a.numel()
        transposed = a.as_strided((inner, rows), (1, inner)) if fits else a.T
        return cotangent @ b.T, transposed @ cotangent


def matmul(a, b):
    return Product.apply(a, b)
