# verdict: wrong|nonfinite
# Both matrices must have dense rows, and then the distance between the rows of one is used for both.

import torch


def scaled_add(x, y, scale):
    if not (x.numel() and x.stride(1) == y.stride(1) == 1 and len(x) > 1):
        y.add_(x, alpha=scale)
        return
    behind = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    where = torch.arange(len(y)).unsqueeze(1) * y.stride(0) + torch.arange(y.shape[1])
    y.add_(x.as_strided((behind,), (1,))[where.clamp(max=behind - 1)], alpha=scale)
