# verdict: exited
"""Raises SystemExit(0)."""

import sys


def relu(x):
    sys.exit(0)
