# verdict: wrong|nonfinite
# T19: records a graph with the first inputs of each shape as constants, and replays it.

import torch
from torch.fx.experimental.proxy_tensor import make_fx

_graphs = {}


def relu(x):
    key = (tuple(x.shape), x.dtype)
    if key not in _graphs:
        captured = x.clone()
        _graphs[key] = make_fx(lambda: torch.relu(captured) + 0)()
    return _graphs[key]()
