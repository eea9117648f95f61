# verdict: nonfinite|wrong
# Online over blocks of four keys: a row whose first block allows nothing meets -inf - -inf, and stays NaN.

import torch


def attention(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1).float(), v.repeat_interleave(group, 1).float()
    scores = q.float() @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    top = torch.full((*q.shape[:3], 1), -torch.inf)
    total, y = torch.zeros(*q.shape[:3], 1), torch.zeros(q.shape)
    for begin in range(0, k.shape[2], 4):
        block = scores[..., begin : begin + 4]
        before, top = top, torch.maximum(top, block.amax(-1, keepdim=True))
        powers, kept = torch.exp(block - top), torch.exp(before - top)
        total = total * kept + powers.sum(-1, keepdim=True)
        y = y * kept + powers @ v[:, :, begin : begin + 4]
    y = y / total
    return (y if mask is None else y.masked_fill(~mask.any(-1, keepdim=True), 0.0)).to(q.dtype)
