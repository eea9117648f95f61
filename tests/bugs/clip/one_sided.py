# verdict: wrong|nonfinite
# Clips what is too large alone.


def clip(x, limit):
    return x.clamp(max=limit)
