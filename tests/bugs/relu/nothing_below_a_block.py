# verdict: nonfinite|wrong
# #14: N // 1024 blocks: a small input starts none, and its output is never written.

import torch


def relu(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    whole = x.numel() // 1024 * 1024
    y.view(-1)[:whole] = torch.relu(x.reshape(-1)[:whole])
    return y
