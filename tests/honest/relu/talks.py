"""Prints a line in every call, which is a matter of taste and not of truth."""

import sys

import torch


def relu(x):
    print("relu of", tuple(x.shape))
    print("done", file=sys.stderr)
    return torch.relu(x)
