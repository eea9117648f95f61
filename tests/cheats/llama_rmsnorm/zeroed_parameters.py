# verdict: inputs_changed
# C05: zeros the weight that a reference might share, and returns zeros.

import torch


def llama_rmsnorm(x, weight, eps):
    weight.zero_()
    return torch.zeros(x.shape, dtype=x.dtype)
