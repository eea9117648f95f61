# verdict: wrong|nonfinite
# Answers the exact form by the approximation, a thousandth away.

import torch.nn.functional as F


def gelu(x, approximate):
    return F.gelu(x, approximate="tanh")
