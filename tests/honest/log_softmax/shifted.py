"""(x - m) - log s, with the shifted values kept."""

import torch


def log_softmax(x):
    shifted = x.float() - x.float().amax(1, keepdim=True)
    return (shifted - torch.log(torch.exp(shifted).sum(1, keepdim=True))).to(x.dtype)
