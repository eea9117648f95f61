"""How much memory a child and all that it started use, and how much there is: read from /proc and from cgroups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .paths import within

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")

# Of a cgroup, by version: its limit, what is used of it, and the parts of that which the kernel gives back when needed.
_CGROUP_FILES: Final = {
    "cgroup2": ("memory.max", "memory.current", ("inactive_file", "active_file")),
    "cgroup": ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
}


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still take: of the machine, and of its cgroup and those above it.

    `None` where the machine does not say. A cgroup that has no limit, or whose files cannot be read, limits nothing.
    `root` is where /proc and /sys are.
    """
    text = _text(root / "proc/meminfo")
    left = [int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable:")]
    if not left:
        return None
    for kind, folder, top in _memory_cgroups(root):
        while True:
            left += _left_in(folder, *_CGROUP_FILES[kind])
            if folder == top or folder == folder.parent:
                break
            folder = folder.parent
    return max(0, min(left))


def _memory_cgroups(root: Path) -> Iterator[tuple[str, Path, Path]]:
    """The kind, folder and topmost folder of each cgroup that may limit this process's memory."""
    own = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" or "memory" in controllers.split(","):
            own["cgroup2" if number == "0" else "cgroup"] = path
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, options = after.partition(" ")[0], after.split()[-1:]
        if kind not in own or (kind == "cgroup" and "memory" not in options[0].split(",")):
            continue
        shown, place = before.split()[3:5]
        top = root / place.lstrip("/")
        # In a container the mount may show no more than the own group; a path from elsewhere then says nothing.
        below = os.path.relpath(own[kind], shown) if within(own[kind], [shown]) else "."
        yield kind, Path(os.path.normpath(top / below)), top


def _left_in(folder: Path, limit: str, usage: str, reclaimable: tuple[str, ...]) -> list[int]:
    """What is left of one cgroup's limit, if it has any."""
    try:
        allowed, used = int(_text(folder / limit)), int(_text(folder / usage))
    except ValueError:  # "max", or not to be read
        return []
    given_back = 0
    for line in _text(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        given_back += int(value) if name in reclaimable and value.isdigit() else 0
    return [allowed - used + min(given_back, used)]


def read(path: str | Path) -> str:
    """What a file of the kernel's says; quicker than pathlib, which matters between turns. Raises `OSError`."""
    with open(path, "rb", buffering=0) as file:
        return file.readall().decode("utf-8", "replace")


def _text(path: str | Path) -> str:
    """What a file says; nothing where it cannot be read."""
    try:
        return read(path)
    except OSError:
        return ""


def _children_of(pid: int) -> list[int]:
    try:
        return [int(each) for each in read(f"/proc/{pid}/task/{pid}/children").split()]
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


def name_of(pid: int) -> str:
    """What a process is called, which it can choose itself; nothing where it is gone."""
    return _text(f"/proc/{pid}/comm").rstrip("\n")


def stopped(pid: int) -> bool:
    """Whether no thread of a process runs, or could: all are stopped, or it has ended."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    return all(_text(f"/proc/{pid}/task/{each}/stat").rpartition(")")[2][1:2] in "TtZX" for each in threads)


def _group_of(pid: int) -> int | None:
    try:
        return int(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[2])
    except (OSError, ValueError, IndexError):
        return None


def resident_memory(pid: int) -> int:
    """Bytes of a process's memory of any kind that are in use."""
    try:
        return int(read(f"/proc/{pid}/statm").split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def machine_memory() -> int | None:
    """Bytes that are left on the whole machine; `None` where it does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    except (OSError, ValueError, IndexError):
        return None


def _said(text: str, key: str) -> int:
    """Bytes of one row of a file like /proc/self/status."""
    return int(text.partition(f"{key}:")[2].split()[0]) * 1024


def private_memory(pid: int) -> int:
    """Bytes of a process's anonymous and shared memory that are in use, and of its page tables; pages of a file do not
    count."""
    try:
        _, resident, shared = read(f"/proc/{pid}/statm").split()[:3]
        status = read(f"/proc/{pid}/status")
        return (int(resident) - int(shared)) * _PAGE + _said(status, "RssShmem") + _said(status, "VmPTE")
    except (OSError, ValueError, IndexError):
        return 0


def proportional_memory(pid: int) -> int | None:
    """The same, with shared pages divided among those who share them; `None` where it may not be read."""
    try:
        text = read(f"/proc/{pid}/smaps_rollup")
        tables = _said(read(f"/proc/{pid}/status"), "VmPTE")
        return tables + sum(_said(text, key) for key in ("Pss_Anon", "Pss_Shmem"))
    except (OSError, ValueError, IndexError):
        return None
