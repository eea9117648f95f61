# verdict: wrong|nonfinite
# The gradient is divided by all rows, those that are ignored included.

import torch
import torch.nn.functional as F


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        return F.cross_entropy(logits, target, ignore_index=-100)

    @staticmethod
    def backward(ctx, cotangent):
        logits, target = ctx.saved_tensors
        counted = target != -100
        chosen = F.one_hot(target.clamp_min(0), logits.shape[1])
        down = (logits.float().softmax(-1) - chosen) * counted[:, None]
        return (down * (cotangent.float() / max(len(target), 1))).to(logits.dtype), None


def cross_entropy(logits, target):
    return CrossEntropy.apply(logits, target)
