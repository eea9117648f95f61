# verdict: wrong
# Keys that several heads share get the gradient of the first of them.

import torch


class Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, k, group):
        ctx.group = group
        return k.repeat_interleave(group, 1)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent[:, :: ctx.group].contiguous(), None


def attention(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = Shared.apply(k, group), v.repeat_interleave(group, 1)
    scores = q.float() @ k.float().transpose(-1, -2) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, -1).to(q.dtype)
    if mask is not None:
        weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)
    return weights @ v
