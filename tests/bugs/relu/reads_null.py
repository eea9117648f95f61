# verdict: crashed
# Reads address zero.

import ctypes


def relu(x):
    return ctypes.string_at(0)
