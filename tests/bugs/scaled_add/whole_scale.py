# verdict: wrong
# Takes its scale as a whole number: a half is nothing.


def scaled_add(x, y, scale):
    y.add_(x, alpha=int(scale))
