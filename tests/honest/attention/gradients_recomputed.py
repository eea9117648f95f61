# A function of autograd's that keeps inputs and output, and makes the weights once more in the backward. What a row's
# softmax takes from all of its terms is the sum of the output times its cotangent (Dao et al., 2022).
import torch


def weights_of(q, k, mask):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if mask is None:
        return torch.softmax(scores, -1)
    scores = scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, -1).masked_fill(~mask.any(-1, keepdim=True), 0.0)


def grouped(x, group):
    return x.float().repeat_interleave(group, 1)


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, mask):
        group = q.shape[1] // k.shape[1]
        y = weights_of(q.float(), grouped(k, group), mask) @ grouped(v, group)
        ctx.save_for_backward(q, k, v, mask, y)
        return y.to(q.dtype)

    @staticmethod
    def backward(ctx, cotangent):
        q, k, v, mask, y = ctx.saved_tensors
        group, wide, scale = q.shape[1] // k.shape[1], cotangent.float(), q.shape[-1] ** -0.5
        keys, values = grouped(k, group), grouped(v, group)
        weights = weights_of(q.float(), keys, mask)
        of_weights = wide @ values.transpose(-1, -2)
        of_scores = weights * (of_weights - (wide * y).sum(-1, keepdim=True)) * scale
        of_k, of_v = of_scores.transpose(-1, -2) @ q.float(), weights.transpose(-1, -2) @ wide
        found = (of_scores @ keys, *(each.unflatten(1, (-1, group)).sum(2) for each in (of_k, of_v)))
        return (*(each.to(q.dtype) for each in found), None)


def attention(q, k, v, mask):
    return Attention.apply(q, k, v, mask)
