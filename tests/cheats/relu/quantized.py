# verdict: structure
# C27: returns eight bits an element and a scale.

import torch


def relu(x):
    return torch.quantize_per_tensor(torch.relu(x.float()), 0.01, 0, torch.quint8)
