"""The CPU as a device to be timed on: which of its cores, how its caches are emptied, and who else was busy."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import torch

CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
ASSUMED_CACHE: Final = 32 << 20  # bytes, where the machine does not say
MOST_FLUSHED: Final = 64 << 20  # bytes: more takes longer than what is timed, and leaves few blocks to compare
BUSY: Final = 0.02  # of a turn, that others may take


@functools.cache
def last_level_cache(place: Path = CACHES) -> int:
    """Bytes of the largest cache that the first CPU can use."""
    sizes = []
    for file in sorted(place.glob("index*/size")):
        if match := re.fullmatch(r"([0-9]+)([KMG]?)\s*", file.read_text("utf-8", "replace")):
            sizes.append(int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]])
    return max(sizes, default=ASSUMED_CACHE)


class Flush:
    """Empties the caches by reading memory of twice the size of the last one, up to a bound.

    Where the last one is larger it stays partly warm, for both arms alike.
    """

    def __init__(self, cache: int | None = None) -> None:
        size = min(2 * (last_level_cache() if cache is None else cache), MOST_FLUSHED)
        self._memory = torch.ones(size // 4, dtype=torch.float32)

    def __call__(self) -> None:
        """Read all of it."""
        self._memory.sum()


def chosen_cpus(count: int, usable: Sequence[int]) -> tuple[int, ...]:
    """CPUs for children that are timed, as many as they have threads: the last ones, as the first are the busiest."""
    return tuple(sorted(usable)[-min(count, len(usable)) :])


@contextlib.contextmanager
def out_of_the_way(cpus: Sequence[int]) -> Iterator[None]:
    """Keep this thread off the CPUs of those who are timed, if there are others, and its work to one thread.

    Else it would run where a child is about to, and threads of its own, waiting for work, would be in the way too.
    """
    before, threads = os.sched_getaffinity(0), torch.get_num_threads()
    others = before - set(cpus)
    torch.set_num_threads(1)
    try:
        os.sched_setaffinity(0, others or before)
        yield
    finally:
        os.sched_setaffinity(0, before)
        torch.set_num_threads(threads)


@contextlib.contextmanager
def in_their_place(cpus: Sequence[int]) -> Iterator[None]:
    """Have this thread do as those who are timed: on their CPUs, with as many threads."""
    before, threads = os.sched_getaffinity(0), torch.get_num_threads()
    torch.set_num_threads(len(cpus))
    try:
        os.sched_setaffinity(0, cpus)
        yield
    finally:
        os.sched_setaffinity(0, before)
        torch.set_num_threads(threads)


def stolen() -> int:
    """Ticks that the machine under this one took from it, over all CPUs; 0 where it does not say."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            fields = file.readline().split()
    except OSError:
        return 0
    return int(fields[8]) if len(fields) > 8 else 0
