# verdict: wrong|nonfinite
# Avoids the overflow by clamping the inputs.

import torch


def softmax(x):
    powers = torch.exp(x.float().clamp(-80, 80))
    return (powers / powers.sum(1, keepdim=True)).to(x.dtype)
