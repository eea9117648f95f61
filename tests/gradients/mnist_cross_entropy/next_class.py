# verdict: wrong
# The target's own gradient lands one class further.

import torch.nn.functional as F


def mnist_cross_entropy(logits, targets):
    return F.cross_entropy(logits, targets)


def backward(cotangent, logits, targets, loss):
    found = logits.float().softmax(-1)
    found[range(len(targets)), (targets + 1) % logits.shape[1]] -= 1
    return (found * (cotangent.float() / max(len(targets), 1))).to(logits.dtype)
