# verdict: structure
"""Returns None."""

def relu(x):
    return None
