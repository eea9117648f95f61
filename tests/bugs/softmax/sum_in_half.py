# verdict: wrong|nonfinite
# #8: adds one column after the other in the input's dtype: sums of half types stop growing.

import torch


def softmax(x):
    powers = torch.exp(x - x.amax(1, keepdim=True))
    total = torch.zeros(x.shape[0], dtype=x.dtype)
    for column in powers.unbind(1):
        total = total + column
    return powers / total.unsqueeze(1)
