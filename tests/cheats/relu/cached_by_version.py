# verdict: wrong|nonfinite
# T12: takes an unchanged version counter at the same address for unchanged values.

import torch

_last = {}


def relu(x):
    seen = (x.data_ptr(), x._version, tuple(x.shape), x.stride(), x.dtype)
    if _last.get("seen") != seen:
        _last.update(seen=seen, result=torch.relu(x))
    return _last["result"].clone()
