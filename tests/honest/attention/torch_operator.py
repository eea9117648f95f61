# gradients: wrong|passed
"""torch's own operator, on repeated heads, with rows that attend to nothing set to zero."""

import torch.nn.functional as F


def attention(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    y = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), attn_mask=mask)
    return (y if mask is None else y.masked_fill(~mask.any(-1, keepdim=True), 0.0)).to(q.dtype)
