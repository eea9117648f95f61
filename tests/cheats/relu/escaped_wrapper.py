# verdict: structure|raised
# T08: returns a tensor that functorch wrapped inside a `vmap` that has ended.

import torch


def relu(x):
    escaped = []

    def keep(row):
        escaped.append(row.clamp_min(0))
        return row

    torch.vmap(keep)(x)
    return escaped[0]
