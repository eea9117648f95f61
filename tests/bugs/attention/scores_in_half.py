# verdict: nonfinite|wrong
# Rounds the products of queries and keys to the dtype of the input before they are scaled: in float16 they overflow.

import torch


def attention(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1).float(), v.repeat_interleave(group, 1).float()
    scores = (q.float() @ k.transpose(-1, -2)).to(q.dtype).float() / q.shape[-1] ** 0.5
    if mask is None:
        return (torch.softmax(scores, -1) @ v).to(q.dtype)
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)
    return (weights.masked_fill(~mask.any(-1, keepdim=True), 0.0) @ v).to(q.dtype)
