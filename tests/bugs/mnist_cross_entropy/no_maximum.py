# verdict: nonfinite|wrong
# Does not take the largest logit out: exponentials overflow, or all vanish.


def mnist_cross_entropy(logits, targets):
    wide = logits.float()
    losses = wide.exp().sum(1).log() - wide.gather(1, targets[:, None])[:, 0]
    return losses.mean().to(logits.dtype)
