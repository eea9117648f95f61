# verdict: wrong|nonfinite
# The sum of the losses instead of their mean.

import torch.nn.functional as F


def cross_entropy(logits, target):
    return F.cross_entropy(logits.float(), target, ignore_index=-100, reduction="sum").to(logits.dtype)
