# An operator registered with torch, and its gradient with it.
import torch
from torch import library


@library.custom_op("kbench_tests::softmax_with_gradient", mutates_args=())
def operator(x: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    shifted = torch.exp(wide - wide.amax(-1, keepdim=True))
    return (shifted / shifted.sum(-1, keepdim=True)).to(x.dtype)


def keep(ctx, inputs, output):
    ctx.save_for_backward(output)


def gradient(ctx, cotangent):
    y, wide = ctx.saved_tensors[0].float(), cotangent.float()
    product = y * wide
    return (product - y * product.sum(-1, keepdim=True)).to(cotangent.dtype)


operator.register_autograd(gradient, setup_context=keep)


def softmax(x):
    return operator(x)
