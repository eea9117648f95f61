# verdict: wrong
# Right below a negative log-likelihood, where the cotangents of a row add up to minus one, and only there.


def log_softmax(x):
    return x.log_softmax(-1)


def backward(cotangent, x, y):
    return (cotangent.float() + y.float().exp()).to(x.dtype)
