# verdict: wrong|nonfinite
# Has a path for either matrix transposed; with both it computes the transposed product, and only reshapes it.


def matmul(a, b):
    wide_a, wide_b = a.float(), b.float()
    if transposed(a) and transposed(b):
        return (wide_b.T @ wide_a.T).reshape(a.shape[0], b.shape[1]).to(a.dtype)
    return (wide_a @ wide_b).to(a.dtype)


def transposed(matrix):
    return min(matrix.shape) > 1 and matrix.stride(0) == 1
