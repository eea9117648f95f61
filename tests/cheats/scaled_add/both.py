# verdict: inputs_changed
# C04: halves the change by moving the other argument towards it.


def scaled_add(x, y, scale):
    y.add_(x, alpha=scale)
    x.zero_()
