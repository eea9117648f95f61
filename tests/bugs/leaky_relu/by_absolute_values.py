# verdict: wrong|precision|nonfinite
# ((1 + slope) x + (1 - slope) |x|) / 2, without a branch: a negative result is a small difference of large numbers.


def leaky_relu(x, slope):
    wide = x.float()
    return ((1 + slope) * 0.5 * wide + (1 - slope) * 0.5 * wide.abs()).to(x.dtype)
