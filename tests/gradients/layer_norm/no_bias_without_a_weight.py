# verdict: no_gradient
# Where there is no weight its backward is that of a plain norm: the bias has no gradient.

import torch.nn.functional as F


def layer_norm(x, weight, bias, eps):
    if weight is None and bias is not None:
        bias = bias.detach()
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)
