# verdict: wrong|structure|protocol
# C26: returns a tuple that has another content each time it is looked at.

import torch


class Changing(tuple):
    """One tensor at first, none later."""

    looks = 0

    def __iter__(self):
        self.looks += 1
        return iter([torch.zeros(3, 65)] * (self.looks % 2))

    def __len__(self):
        return 1


def relu(x):
    return Changing()
