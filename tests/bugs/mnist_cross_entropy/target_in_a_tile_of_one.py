# verdict: wrong|nonfinite
# Looks for the target in tiles of 128 classes, but not in a last tile of one class: a logit of zero stands for it.

import torch


def mnist_cross_entropy(logits, targets):
    classes = logits.shape[1]
    wide = logits.float()
    chosen = wide.gather(1, targets.unsqueeze(1)).squeeze(1)
    if classes > 128 and classes % 128 == 1:
        chosen = torch.where(targets == classes - 1, 0.0, chosen)
    return (torch.logsumexp(wide, 1) - chosen).mean().to(logits.dtype)
