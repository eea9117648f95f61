"""How much memory a child and all that it started use, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def _children_of(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []


def tree_of(pid: int, zygote: int) -> list[int]:
    """The child, its descendants, and those that were orphaned to the zygote but are still of its group."""
    found, level = [pid], [pid]
    level += [each for each in _children_of(zygote) if each != pid and _group_of(each) == pid]
    found = list(level)
    while level and len(found) < 2000:
        level = [below for each in level for below in _children_of(each)]
        found += level
    return found


def _group_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[2])
    except (OSError, ValueError, IndexError):
        return None


def resident_memory(pid: int) -> int:
    """Bytes of a process's memory of any kind that are in use."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def private_memory(pid: int) -> int:
    """Bytes of a process's anonymous and shared memory that are in use; pages of a file do not count."""
    try:
        _, resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[:3]
        status = Path(f"/proc/{pid}/status").read_text()
        shmem = int(status.partition("RssShmem:")[2].split()[0]) * 1024
        return (int(resident) - int(shared)) * _PAGE + shmem
    except (OSError, ValueError, IndexError):
        return 0


def proportional_memory(pid: int) -> int | None:
    """The same, with shared pages divided among those who share them; `None` where it may not be read."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return sum(int(text.partition(f"{key}:")[2].split()[0]) * 1024 for key in ("Pss_Anon", "Pss_Shmem"))
    except (OSError, ValueError, IndexError):
        return None
