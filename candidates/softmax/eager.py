"""Softmax over the last dimension, as torch does it, in float32 for the half types."""

import torch


def softmax(x):
    """Any shape and strides; one rounding to the input's dtype at the end."""
    return torch.softmax(x, -1, dtype=torch.promote_types(x.dtype, torch.float32)).to(x.dtype)
