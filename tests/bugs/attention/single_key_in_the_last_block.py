# verdict: wrong|nonfinite
# Counts blocks of 32 keys as (n - 1) // 32, and one more: right, but the loop over a last block of one key is empty.

import torch


def attention(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1).float(), v.repeat_interleave(group, 1).float()
    keys = k.shape[2] - (k.shape[2] > 32 and k.shape[2] % 32 == 1)
    scores = q.float() @ k[:, :, :keys].transpose(-1, -2) / q.shape[-1] ** 0.5
    if mask is None:
        return (torch.softmax(scores, -1) @ v[:, :, :keys]).to(q.dtype)
    mask = mask[..., :keys]
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)
    return (weights.masked_fill(~mask.any(-1, keepdim=True), 0.0) @ v[:, :, :keys]).to(q.dtype)
