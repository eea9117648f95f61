# verdict: wrong
# The targets are an attribute of the context: that they were changed before the backward is not noticed.
import torch


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        ctx.p, ctx.targets, ctx.dtype = torch.softmax(logits.float(), 1), targets, logits.dtype
        return torch.nn.functional.cross_entropy(logits, targets)

    @staticmethod
    def backward(ctx, cotangent):
        count = len(ctx.targets)
        p = ctx.p.scatter_add(1, ctx.targets.unsqueeze(1), torch.full((count, 1), -1.0))
        return (p * (cotangent.float() / max(count, 1))).to(ctx.dtype), None


def mnist_cross_entropy(logits, targets):
    return Loss.apply(logits, targets)
