# verdict: wrong
# Rounds the probabilities to half precision before the backward uses them.


def log_softmax(x):
    return x.log_softmax(-1)


def backward(cotangent, x, y):
    up = cotangent.float()
    return (up - y.float().exp().half() * up.sum(-1, keepdim=True)).to(x.dtype)
