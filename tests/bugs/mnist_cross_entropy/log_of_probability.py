# verdict: nonfinite|wrong
# Takes the logarithm of a probability that has become zero.

import torch


def mnist_cross_entropy(logits, targets):
    picked = torch.softmax(logits.float(), 1).gather(1, targets[:, None])[:, 0]
    return -picked.log().mean().to(logits.dtype)
