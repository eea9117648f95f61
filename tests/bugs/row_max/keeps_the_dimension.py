# verdict: structure
# Returns a column instead of a vector.


def row_max(x):
    return x.amax(1, keepdim=True)
