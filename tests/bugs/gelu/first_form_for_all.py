# verdict: wrong
# Chooses between the exact form and the approximation at its first call.

import torch.nn.functional as F

_chosen = []


def gelu(x, approximate):
    _chosen.append(approximate)
    return F.gelu(x, approximate=_chosen[0])
