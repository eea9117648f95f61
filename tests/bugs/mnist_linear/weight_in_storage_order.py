# verdict: wrong|nonfinite
# Takes the weight's memory for dense; activations may lie as they like.

import torch


def mnist_linear(x, weight, bias):
    dense = torch.zeros(weight.numel(), dtype=weight.dtype)
    behind = weight.untyped_storage().nbytes() // weight.element_size() - weight.storage_offset()
    read = min(behind, weight.numel())
    dense[:read] = weight.as_strided((read,), (1,))
    return (x.float() @ dense.view(weight.shape).float().T + bias.float()).to(x.dtype)
