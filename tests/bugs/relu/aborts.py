# verdict: crashed
# Calls abort().

import os


def relu(x):
    os.abort()
