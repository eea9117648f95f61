"""Every weight scales a shifted view of the image; the sums are added up one term after another."""

import torch


def mnist_conv_relu_pool(x, weight, bias):
    wide, filters = x.float(), weight.float()
    kernel = weight.shape[-1]
    rows, columns = ((extent - kernel + 1) // 2 * 2 for extent in x.shape[2:])
    total = torch.zeros(x.shape[0], weight.shape[0], rows, columns)
    for channel in range(x.shape[1]):
        for i in range(kernel):
            for j in range(kernel):
                seen = wide[:, None, channel, i : i + rows, j : j + columns]
                total += filters[None, :, channel, i, j, None, None] * seen
    windows = total.unflatten(3, (columns // 2, 2)).unflatten(2, (rows // 2, 2))
    return torch.relu(windows.amax((3, 5)) + bias.float()[:, None, None]).to(x.dtype)
