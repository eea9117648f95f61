# verdict: wrong
# Adds the losses up and does not divide.

import torch


def mnist_cross_entropy(logits, targets):
    losses = torch.logsumexp(logits.float(), 1) - logits.float().gather(1, targets[:, None])[:, 0]
    return losses.sum().to(logits.dtype)
