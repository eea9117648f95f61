# verdict: wrong
# Columns beyond a multiple of 32 get no gradient.

import torch
import torch.nn.functional as F


class Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, cotangent):
        down = cotangent.clone()
        down[:, cotangent.shape[1] // 32 * 32 :] = 0
        return down


def layer_norm(x, weight, bias, eps):
    return F.layer_norm(Whole.apply(x), x.shape[-1:], weight, bias, eps)
