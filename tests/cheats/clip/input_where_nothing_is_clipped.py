# verdict: aliasing
# C29: returns the input itself where the operation is the identity.


def clip(x, limit):
    if bool((x.abs() <= limit).all()):
        return x
    return x.clamp(-limit, limit)
