# verdict: wrong|nonfinite
# Masks by adding -10,000, which fits into half types, and is not little beside scores that are as negative.

import torch


def attention(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1).float(), v.repeat_interleave(group, 1).float()
    scores = q.float() @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if mask is None:
        return (torch.softmax(scores, -1) @ v).to(q.dtype)
    y = torch.softmax(scores - 10_000.0 * (~mask).float(), -1) @ v
    return y.masked_fill(~mask.any(-1, keepdim=True), 0.0).to(q.dtype)
