# verdict: aliasing
"""Returns a view of its input, right wherever nothing is negative."""

def relu(x):
    return x[:]
