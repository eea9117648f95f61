# verdict: nonfinite|wrong
# Reads columns in pairs when it looks for the maximum: an odd last one is shifted by that of the others.

import torch


def softmax(x):
    wide = x.float()
    pairs = max(x.shape[1] // 2 * 2, 1)
    powers = torch.exp(wide - wide[:, :pairs].amax(1, keepdim=True))
    return (powers / powers.sum(1, keepdim=True)).to(x.dtype)
