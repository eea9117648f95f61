# verdict: nonfinite
# Goes back through the logarithm and the softmax one by one: the target's probability may be zero.

import torch.nn.functional as F


def mnist_cross_entropy(logits, targets):
    return F.cross_entropy(logits, targets)


def backward(cotangent, logits, targets, loss):
    found = logits.float().softmax(-1)
    own = found.gather(1, targets[:, None])
    down = -found * own
    down.scatter_add_(1, targets[:, None], own)
    return (down * (-1 / own) * (cotangent.float() / max(len(targets), 1))).to(logits.dtype)
