# verdict: wrong|nonfinite
# Repeats the list of heads instead of each head.

import torch.nn.functional as F


def attention(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(1, group, 1, 1), v.repeat(1, group, 1, 1)
    y = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), attn_mask=mask)
    return (y if mask is None else y.masked_fill(~mask.any(-1, keepdim=True), 0.0)).to(q.dtype)
