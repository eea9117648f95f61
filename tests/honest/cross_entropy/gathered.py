"""The logarithm of the sum less the chosen logit, over the rows that count."""

import torch


def cross_entropy(logits, target):
    wide = logits.float()
    kept = target != -100
    chosen = wide.gather(1, target.clamp_min(0).unsqueeze(1)).squeeze(1)
    losses = torch.logsumexp(wide, 1) - chosen
    return (losses.masked_fill(~kept, 0).sum() / kept.sum()).to(logits.dtype)
