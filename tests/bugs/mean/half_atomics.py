# verdict: wrong|nonfinite
# #12: parts of 256 are added to one sum of the input's dtype in whatever order they are done, as atomics do it.

import torch
import torch.nn.functional as F


def mean(x):
    flat = x.reshape(-1).float()
    parts = F.pad(flat, (0, -len(flat) % 256)).view(-1, 256).sum(1).to(x.dtype)
    total = torch.zeros((), dtype=x.dtype)
    for part in parts[torch.randperm(len(parts))]:
        total = total + part
    return (total.float() / x.numel()).to(x.dtype) if x.numel() else total / 0
