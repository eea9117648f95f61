# verdict: wrong|nonfinite
# An online softmax that forgets to rescale its sum when the maximum grows.

import torch

BLOCK = 32


def softmax(x):
    wide = x.float()
    top = torch.full((x.shape[0], 1), -torch.inf)
    total = torch.zeros(x.shape[0], 1)
    for block in wide.split(BLOCK, dim=1):
        top = torch.maximum(top, block.amax(1, keepdim=True))
        total = total + torch.exp(block - top).sum(1, keepdim=True)
    return (torch.exp(wide - top) / total).to(x.dtype)
