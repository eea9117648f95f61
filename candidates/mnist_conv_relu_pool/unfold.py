"""Convolution as a matrix product of the filters with unfolded patches; the maximum, then bias and ReLU, per window."""

import torch
import torch.nn.functional as F


def mnist_conv_relu_pool(x, weight, bias):
    """Any strides and dtype; sums in float32 for the half types, with one rounding at the end.

    The maximum commutes with what follows it: both are increasing.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    kernel = weight.shape[-1]
    patches = F.unfold(x.to(wide), kernel)
    sums = weight.flatten(1).to(wide) @ patches
    sums = sums.unflatten(-1, (x.shape[2] - kernel + 1, x.shape[3] - kernel + 1))
    rows, columns = sums.shape[2] // 2, sums.shape[3] // 2
    windows = sums[:, :, : 2 * rows, : 2 * columns].unflatten(-2, (rows, 2)).unflatten(-1, (columns, 2))
    return torch.relu(windows.amax((-3, -1)) + bias.to(wide)[:, None, None]).to(x.dtype)
