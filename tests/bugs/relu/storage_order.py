# verdict: wrong|nonfinite
# #20: reads the storage in its own order, whatever the strides.

import torch


def relu(x):
    dense = torch.as_strided(x, x.shape, (x.shape[1], 1))
    return torch.relu(dense)
