# verdict: wrong|nonfinite
# Adds 1e-7 to a probability, lest its logarithm be infinite.

import torch


def mnist_cross_entropy(logits, targets):
    picked = torch.softmax(logits.float(), 1).gather(1, targets[:, None])[:, 0]
    return -(picked + 1e-7).log().mean().to(logits.dtype)
