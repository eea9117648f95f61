# verdict: binding
# Defines neither the task's function nor `forward`.

import torch


def rectified(x):
    return torch.relu(x)
