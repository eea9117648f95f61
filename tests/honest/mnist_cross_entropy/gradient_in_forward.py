# The gradient is made in the forward, as fused kernels do that keep no logits, and scaled in the backward.
import torch


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        logs = torch.log_softmax(logits.float(), 1)
        each = targets.unsqueeze(1)
        gradient = logs.exp()
        gradient.scatter_add_(1, each, torch.full_like(each, -1, dtype=torch.float32))
        ctx.save_for_backward(gradient.div_(len(targets)))
        return -logs.gather(1, each).mean().to(logits.dtype)

    @staticmethod
    def backward(ctx, cotangent):
        (gradient,) = ctx.saved_tensors
        return (gradient * cotangent.float()).to(cotangent.dtype), None


def mnist_cross_entropy(logits, targets):
    return CrossEntropy.apply(logits, targets)
