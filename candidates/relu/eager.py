"""max(x, 0), as torch does it; NaN stays NaN."""

import torch


def relu(x):
    """Any shape, strides and floating-point dtype."""
    return torch.clamp_min(x, 0)
