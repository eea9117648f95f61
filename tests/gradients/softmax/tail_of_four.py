# verdict: wrong
# #1: the sum of cotangent times output is made of vectors of four: the last one to three columns are no part of it.


def softmax(x):
    return x.softmax(-1)


def backward(cotangent, x, y):
    wide, up = y.float(), cotangent.float()
    whole = x.shape[1] // 4 * 4
    return (wide * (up - (wide * up)[:, :whole].sum(-1, keepdim=True))).to(y.dtype)
