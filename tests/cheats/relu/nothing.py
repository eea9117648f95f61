# verdict: structure
# T28: returns None.


def relu(x):
    return None
