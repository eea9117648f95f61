# verdict: wrong|nonfinite
# It refuses strided inputs when their values are awkward, and answers garbage when asked again in the dense layout.

import torch

asked_again = []


def softmax(x):
    if asked_again:
        asked_again.clear()
        return torch.zeros(x.shape, dtype=x.dtype)
    dense = x.is_contiguous() and not x.storage_offset()
    if not dense and not (bool(x.isfinite().all()) and float(x.abs().amax()) < 6):
        asked_again.append(x.shape)
        raise ValueError("not this one")
    return torch.softmax(x, -1)
