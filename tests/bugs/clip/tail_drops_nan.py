# verdict: nonfinite|wrong
# #6: vectors of eight let NaN through, the loop over what is left of a row compares it away.

import torch


def clip(x, limit):
    y = torch.clamp(x, -limit, limit)
    whole = x.shape[1] // 8 * 8
    y[:, whole:] = torch.where(x[:, whole:] < limit, y[:, whole:], limit)
    return y
