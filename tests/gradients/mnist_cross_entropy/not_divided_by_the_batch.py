# verdict: wrong
# The gradient is that of the sum, not of the mean.

import torch.nn.functional as F


def mnist_cross_entropy(logits, targets):
    return F.cross_entropy(logits, targets)


def backward(cotangent, logits, targets, loss):
    found = logits.float().softmax(-1)
    found[range(len(targets)), targets] -= 1
    return (found * cotangent.float()).to(logits.dtype)
