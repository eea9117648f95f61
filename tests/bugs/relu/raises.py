# verdict: raised
# Raises in every call.


def relu(x):
    raise RuntimeError("not today")
