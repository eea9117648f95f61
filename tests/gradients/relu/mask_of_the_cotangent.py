# verdict: wrong
# Applies itself once more on the way back: the mask is the cotangent's sign, not the input's.


def relu(x):
    return x.clamp_min(0)


def backward(cotangent, x, y):
    return cotangent.clamp_min(0)
