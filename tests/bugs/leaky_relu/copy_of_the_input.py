# verdict: wrong
# #39: returns a copy of its input, which is right for inputs drawn from [0, 1).


def leaky_relu(x, slope):
    return x.clone()
