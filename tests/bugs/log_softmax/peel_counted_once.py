# verdict: wrong|nonfinite
# Peels columns until its loads are aligned, then works in fours; the length of the tail forgets the peeled ones.

import torch


def log_softmax(x):
    columns = x.shape[1]
    peeled = min(-x.storage_offset() % 4, columns)
    whole = (columns - peeled) // 4 * 4
    tail = min(columns % 4, columns - peeled - whole)
    shifted = x.float() - x.float().amax(1, keepdim=True)
    powers = torch.exp(shifted)
    total = powers[:, : peeled + whole].sum(1, keepdim=True)
    total += powers[:, columns - tail :].sum(1, keepdim=True) if tail else 0.0
    return (shifted - torch.log(total)).to(x.dtype)
