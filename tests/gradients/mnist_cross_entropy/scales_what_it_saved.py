# verdict: wrong
# The forward makes the gradient, and the backward multiplies it in place, to save memory: once it is right, over the
# same graph again it is multiplied again.

import torch


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        logs = torch.log_softmax(logits.float(), -1)
        gradient = logs.exp()
        gradient[torch.arange(len(targets)), targets] -= 1
        ctx.gradient = gradient.div_(max(len(targets), 1))
        return torch.nn.functional.nll_loss(logs, targets).to(logits.dtype)

    @staticmethod
    def backward(ctx, cotangent):
        ctx.gradient.mul_(cotangent)
        return ctx.gradient.to(cotangent.dtype, copy=True), None


def mnist_cross_entropy(logits, targets):
    return CrossEntropy.apply(logits, targets)
