# verdict: flood
# E04: prints without end.

import os


def relu(x):
    line = b"relu\n" * 4096
    while True:
        os.write(1, line)
