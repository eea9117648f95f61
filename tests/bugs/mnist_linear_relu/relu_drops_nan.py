# verdict: nonfinite
# Its maximum is that of C's fmax: NaN becomes zero.

import torch


def mnist_linear_relu(x, weight, bias):
    y = x.float() @ weight.float().T + bias.float()
    return torch.fmax(y, torch.zeros(())).to(x.dtype)
