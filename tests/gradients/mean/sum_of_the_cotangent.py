# verdict: wrong
# Every element gets the whole cotangent: the division by their number is left to the forward.


def mean(x):
    return x.mean()


def backward(cotangent, x, y):
    return cotangent.expand(x.shape).contiguous()
