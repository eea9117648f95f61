# verdict: inputs_changed
# #17: subtracts the mean in place.

import torch


def layer_norm(x, weight, bias, eps):
    x.sub_(x.mean(1, keepdim=True))
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)
