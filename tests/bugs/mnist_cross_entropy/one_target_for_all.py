# verdict: wrong|nonfinite
# Forgets the stride between targets: every row is measured against the first.

import torch


def mnist_cross_entropy(logits, targets):
    wide = logits.float()
    first = targets[:1].expand(logits.shape[0])
    losses = torch.logsumexp(wide, 1) - wide.gather(1, first[:, None])[:, 0]
    return losses.mean().to(logits.dtype)
