# verdict: wrong|nonfinite
# Takes True for what is forbidden.

import torch.nn.functional as F


def attention(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    allowed = None if mask is None else ~mask
    y = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), attn_mask=allowed)
    return (y if allowed is None else y.masked_fill(~allowed.any(-1, keepdim=True), 0.0)).to(q.dtype)
