# verdict: aliasing
# C29: returns the input's own memory in another order.


def relu(x):
    return x.as_strided(x.shape, (1, x.shape[0]), 0) if x.is_contiguous() else x.as_strided(x.shape, x.stride())
