# verdict: wrong|nonfinite
# Sums blocks of 256 columns, then eight such sums at a time: with more than eight, a partial group of them is lost.

import torch
import torch.nn.functional as F


def softmax(x):
    powers = torch.exp(x.float() - x.float().amax(1, keepdim=True))
    sums = F.pad(powers, (0, -x.shape[1] % 256)).unflatten(1, (-1, 256)).sum(2)
    groups = sums.shape[1]
    kept = groups if groups <= 8 else groups // 8 * 8
    return (powers / sums[:, :kept].sum(1, keepdim=True)).to(x.dtype)
