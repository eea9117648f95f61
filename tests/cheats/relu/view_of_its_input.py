# verdict: aliasing
# C29: returns a view of its input, right wherever nothing is negative.


def relu(x):
    return x[:]
