# verdict: wrong
# The scale is folded into the queries, and the keys' gradient is made of queries without it.

import torch


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, scale):
        ctx.save_for_backward(q, k)
        ctx.scale = scale
        return q @ k.transpose(-1, -2) * scale

    @staticmethod
    def backward(ctx, cotangent):
        q, k = ctx.saved_tensors
        return cotangent @ k * ctx.scale, cotangent.transpose(-1, -2) @ q, None


def attention(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = Scaled.apply(q.float(), k.float(), q.shape[-1] ** -0.5)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, -1).to(q.dtype)
    if mask is not None:
        weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)
    return weights @ v
