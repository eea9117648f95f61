# verdict: inputs_changed
# Writes the sum into the argument that must stay.


def scaled_add(x, y, scale):
    x.mul_(scale).add_(y)
