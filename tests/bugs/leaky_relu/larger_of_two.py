# verdict: nonfinite|wrong
# #6: the larger of x and slope * x by a comparison that drops NaN.

import torch


def leaky_relu(x, slope):
    scaled = x * slope
    return torch.where(x > scaled, x, torch.where(scaled >= x, scaled, torch.zeros((), dtype=x.dtype)))
