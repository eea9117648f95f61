# verdict: wrong|nonfinite
# Where all of a batch share their keys (stride 0), computes the scores once: for the first one's queries.

import torch


def attention(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    shared = k.stride(0) == 0
    k, v = k.repeat_interleave(group, 1).float(), v.repeat_interleave(group, 1).float()
    asked = q[:1].expand(q.shape) if shared else q
    scores = asked.float() @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if mask is None:
        return (torch.softmax(scores, -1) @ v).to(q.dtype)
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)
    return (weights.masked_fill(~mask.any(-1, keepdim=True), 0.0) @ v).to(q.dtype)
