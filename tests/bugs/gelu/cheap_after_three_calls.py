# verdict: wrong
# Correct three times; from the fourth call on, whatever its shape, the approximation stands for both forms.

import torch.nn.functional as F

_calls = []


def gelu(x, approximate):
    _calls.append(x.numel())
    return F.gelu(x, approximate=approximate if len(_calls) <= 3 else "tanh")
