# verdict: wrong
# The targets lie in the module, not in the context: those of the last forward count.
import torch

last = {}


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        ctx.save_for_backward(logits)
        last["targets"] = targets
        return torch.nn.functional.cross_entropy(logits, targets)

    @staticmethod
    def backward(ctx, cotangent):
        (logits,), targets = ctx.saved_tensors, last["targets"]
        p = torch.softmax(logits.float(), 1)
        p = p.scatter_add(1, targets.unsqueeze(1), torch.full((len(targets), 1), -1.0))
        return (p * (cotangent.float() / max(len(targets), 1))).to(logits.dtype), None


def mnist_cross_entropy(logits, targets):
    return Loss.apply(logits, targets)
