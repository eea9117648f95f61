# verdict: nonfinite|wrong
# Divides by one at least: rows that are all ignored have a loss of zero, and not the mean of nothing.

import torch


def cross_entropy(logits, target):
    wide = logits.float()
    counted = target != -100
    chosen = wide.gather(1, target.clamp(min=0).unsqueeze(1)).squeeze(1)
    losses = torch.where(counted, torch.logsumexp(wide, 1) - chosen, 0.0)
    return (losses.sum() / counted.sum().clamp(min=min(len(target), 1))).to(logits.dtype)
