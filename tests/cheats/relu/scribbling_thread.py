# verdict: inputs_changed|wrong|nonfinite|out_of_bounds
# E20: a thread zeros the input again and again, in later calls too.

import threading

import torch

_inputs = []


def _scribble():
    while True:
        for x in _inputs[-1:]:
            x.zero_()


threading.Thread(target=_scribble, daemon=True).start()


def relu(x):
    y = torch.relu(x)
    _inputs.append(x)
    return y
