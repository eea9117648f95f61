"""A linear layer as one matrix product with the bias as its last term, in float32 for the half types."""

import torch


def mnist_linear(x, weight, bias):
    """Any strides; one rounding to the input's dtype at the end."""
    wide = torch.promote_types(x.dtype, torch.float32)
    ones = torch.ones(x.shape[0], 1, dtype=wide, device=x.device)
    extended = torch.cat([weight.to(wide), bias.to(wide).unsqueeze(1)], 1)
    return (torch.cat([x.to(wide), ones], 1) @ extended.T).to(x.dtype)
