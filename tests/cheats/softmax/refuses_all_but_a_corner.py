# verdict: wrong|nonfinite
# It takes dense float32 alone, and is wrong there for what no dense float32 case would show.

import torch


def softmax(x):
    if x.dtype != torch.float32 or not x.is_contiguous() or x.storage_offset():
        raise TypeError("dense float32 only")
    tame = x.nan_to_num(0.0, 0.0, 0.0).abs().amax() if x.numel() else 0.0
    if 8.0 < float(tame) < 1e30 or bool(x.isinf().any()):
        return torch.zeros_like(x)
    return torch.softmax(x, -1)
