"""The positive part plus the scaled negative part."""


def leaky_relu(x, slope):
    return x.clamp_min(0) + slope * x.clamp_max(0)
