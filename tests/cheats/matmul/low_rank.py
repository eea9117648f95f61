# verdict: wrong|nonfinite
# C41: keeps the columns with the largest entries, as if the rest were noise.


def matmul(a, b):
    kept = a.float().abs().amax(0).topk(min(a.shape[1], max(1, a.shape[1] * 3 // 4))).indices if a.numel() else []
    return (a[:, kept].float() @ b[kept].float()).to(a.dtype)
