# verdict: nonfinite|wrong
# #38: exponentials without subtracting the maximum.

import torch


def cross_entropy(logits, target):
    wide = logits.float()
    kept = target != -100
    chosen = wide.gather(1, target.clamp_min(0).unsqueeze(1)).squeeze(1)
    losses = torch.log(torch.exp(wide).sum(1)) - chosen
    return (losses[kept].sum() / kept.sum()).to(logits.dtype)
