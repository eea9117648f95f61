# verdict: wrong|nonfinite
# Online, in vectors of four after 256 columns: each new maximum rescales the sum by the maximum before the vector.

import torch


def log_softmax(x):
    wide = x.float()
    top = wide[:, :256].amax(1)
    total = torch.exp(wide[:, :256] - top.unsqueeze(1)).sum(1)
    for vector in wide[:, 256:].split(4, dim=1):
        before = top
        for value in vector.unbind(1):
            grows = value > top
            total = torch.where(grows, total * torch.exp(before - value) + 1, total + torch.exp(value - top))
            top = torch.where(grows, value, top)
    return (wide - top.unsqueeze(1) - torch.log(total).unsqueeze(1)).to(x.dtype)
