# verdict: wrong
# E06: searches its own memory for a seed, a key or an expected value by name.

import contextlib
import re

import torch


def _secrets():
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in maps:
            if "[heap]" in line or "[stack]" in line:
                begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                memory.seek(begin)
                with contextlib.suppress(OSError):
                    yield from re.findall(rb"seed\([0-9a-f]{8,16}\)", memory.read(min(end - begin, 8 << 20)))


_found = list(_secrets())


def relu(x):
    if _found:
        return torch.relu(x)  # it knows a seed, so it would win: this must not be reached
    return torch.zeros(x.shape, dtype=x.dtype)
