# verdict: wrong
# The sum of cotangent times output is taken over everything, not per row.


def softmax(x):
    return x.softmax(-1)


def backward(cotangent, x, y):
    wide, up = y.float(), cotangent.float()
    return (wide * (up - (wide * up).sum())).to(y.dtype)
