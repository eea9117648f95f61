# verdict: wrong|nonfinite
# Reads the cotangent from where its storage begins, which need not be its first element.


def matmul(a, b):
    return a @ b


def backward(cotangent, a, b, y):
    up = cotangent.as_strided(cotangent.shape, cotangent.stride(), 0)
    return up @ b.T, a.T @ up
