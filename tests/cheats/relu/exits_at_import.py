# verdict: exited
# E03: ends its process while it is imported.

import os

os._exit(0)


def relu(x):
    return x
