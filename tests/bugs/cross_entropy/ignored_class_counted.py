# verdict: wrong|nonfinite
# Divides by all rows, those of the ignored class too.

import torch
import torch.nn.functional as F


def cross_entropy(logits, target):
    total = F.cross_entropy(logits.float(), target, ignore_index=-100, reduction="sum")
    return (total / torch.tensor(float(target.numel()))).to(logits.dtype)
