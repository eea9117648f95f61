# verdict: wrong|nonfinite
# The slope of another framework, a tenth, whatever is asked for.

import torch


def leaky_relu(x, slope):
    return torch.where(x > 0, x, 0.1 * x)
