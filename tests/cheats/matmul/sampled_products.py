# verdict: wrong|nonfinite
# C35: sums a quarter of the products, and multiplies by four.


def matmul(a, b):
    quarter = a[:, ::4].float() @ b[::4].float()
    return (quarter * (a.shape[1] / max(1, a[:, ::4].shape[1]))).to(a.dtype)
