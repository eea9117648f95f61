# verdict: outputs_changed|wrong|nonfinite
# Returns two buffers of a shape in turn: a result that is still needed after the next call but one is overwritten.

import torch
import torch.nn.functional as F

_rings = {}


def silu(x):
    ring = _rings.setdefault((tuple(x.shape), x.dtype), [torch.empty(x.shape, dtype=x.dtype) for _ in range(2)])
    ring.reverse()
    return ring[0].copy_(F.silu(x))
