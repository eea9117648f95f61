# verdict: wrong|nonfinite
# C30: returns its argument untouched, which equals a reference that wrote into the same one.


def scaled_add(x, y, scale):
    return y
