# verdict: load
# Raises while it is imported.

raise ImportError("no such accelerator")


def relu(x):
    return x
