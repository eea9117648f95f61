# gradients: nonfinite
"""Blocks of keys with a running maximum and sum, both rescaled; heads in groups without repeating them."""

import torch

BLOCK = 8


def attention(q, k, v, mask):
    batch, heads, queries, width = q.shape
    groups = k.shape[1]
    grouped = q.float().view(batch, groups, heads // groups, queries, width) * width**-0.5
    top = torch.full((*grouped.shape[:4], 1), -torch.inf)
    total, y = torch.zeros_like(top), torch.zeros_like(grouped)
    for begin in range(0, k.shape[2], BLOCK):
        keys = k[:, :, None, begin : begin + BLOCK].float()
        scores = grouped @ keys.transpose(-1, -2)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, :, None, :, begin : begin + BLOCK], -torch.inf)
        before, top = top, torch.maximum(top, scores.amax(-1, keepdim=True))
        safe = top.masked_fill(top == -torch.inf, 0.0)
        powers, kept = torch.exp(scores - safe), torch.exp(before - safe)
        total = total * kept + powers.sum(-1, keepdim=True)
        y = y * kept + powers @ v[:, :, None, begin : begin + BLOCK].float()
    y = torch.where(total > 0, y / total, torch.zeros(()))
    return y.view(q.shape).to(q.dtype)
