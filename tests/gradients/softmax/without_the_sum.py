# verdict: wrong
# Takes softmax for an elementwise function: what the other columns contribute is missing.


def softmax(x):
    return x.softmax(-1)


def backward(cotangent, x, y):
    return y * (1 - y) * cotangent
