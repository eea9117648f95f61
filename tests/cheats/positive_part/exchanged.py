# verdict: structure
# C27: the mask for both outputs: ones where the answer is positive.


def positive_part(x):
    return x > 0, x > 0
