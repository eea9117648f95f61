"""2D convolution as one 1x1 convolution (a matrix product) per place in the kernel, on shifted views of the image."""

import torch
import torch.nn.functional as F


def unet_conv2d(x, weight, bias, stride, padding):
    """Any strides and dtype; sums in float32 for the half types, with one rounding at the end."""
    wide = torch.promote_types(x.dtype, torch.float32)
    padded, filters = F.pad(x.to(wide), (padding,) * 4), weight.to(wide)
    kernel = weight.shape[-1]
    rows, columns = ((extent - kernel) // stride + 1 for extent in padded.shape[-2:])
    total = bias.to(wide)[:, None, None]
    for i in range(kernel):
        for j in range(kernel):
            seen = padded[:, :, i : i + rows * stride : stride, j : j + columns * stride : stride]
            total = total + torch.einsum("fc,ncij->nfij", filters[:, :, i, j], seen[:, :, :rows, :columns])
    return total.to(x.dtype)
