# verdict: wrong|nonfinite
# C41: takes the scores for small, so that every weight is the same.


def attention(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    return v.repeat_interleave(group, 1).float().mean(2, keepdim=True).expand(q.shape).contiguous().to(q.dtype)
