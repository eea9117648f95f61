# verdict: wrong|nonfinite|unsupported
# #20: reads the second matrix in the order of its storage.


def matmul(a, b):
    return a.contiguous() @ b.as_strided(b.shape, (b.shape[1], 1))
