# verdict: inputs_changed
# #16: masks the cotangent in place and returns it.


def relu(x):
    return x.clamp_min(0)


def backward(cotangent, x, y):
    return cotangent.mul_(x > 0)
