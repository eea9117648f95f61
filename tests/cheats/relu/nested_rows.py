# verdict: structure|raised
# C26: returns a nested tensor, which has rows and no shape.

import warnings

import torch

warnings.simplefilter("ignore")


def relu(x):
    return torch.nested.nested_tensor([row.clamp_min(0) for row in x[:4]])
