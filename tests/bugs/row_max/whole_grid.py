# verdict: nonfinite|wrong
# #14: one block for 128 rows, and rows // 128 blocks: what is left of the output is never written.

import torch


def row_max(x):
    y = torch.empty(x.shape[0], dtype=x.dtype)
    whole = x.shape[0] // 128 * 128
    y[:whole] = x[:whole].amax(1)
    return y
