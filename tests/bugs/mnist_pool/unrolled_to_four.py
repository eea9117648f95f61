# verdict: wrong|nonfinite
# Unrolls the rows of a window up to four: taller ones lose the rest.


def mnist_pool(x, kernel):
    n, c, h, w = x.shape
    rows, columns = h // kernel, w // kernel
    windows = x[:, :, : rows * kernel, : columns * kernel].reshape(n, c, rows, kernel, columns, kernel)
    return windows[:, :, :, :4].amax((3, 5))
