# verdict: wrong|nonfinite
# Sums in half precision, sixteen terms at a time.

import torch


def mnist_linear_relu(x, weight, bias):
    narrow = torch.bfloat16 if x.dtype == torch.bfloat16 else torch.float16
    y = torch.zeros(x.shape[0], weight.shape[0], dtype=narrow)
    for start in range(0, x.shape[1], 16):
        part = slice(start, start + 16)
        y = y + (x[:, part].float() @ weight[:, part].float().T).to(narrow)
    return (y + bias.to(narrow)).clamp_min(0).to(x.dtype)
