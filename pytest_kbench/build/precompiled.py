"""Our header for torch's form, compiled once for all candidates: half of their compile time, a quarter of a gigabyte.

It pays after three candidates, so the fourth that is built on a machine makes it. It is compiled of our header and
torch's alone, in a sandbox and a folder of its own, and copied by the grader into a store where nobody else writes: no
candidate has a part in it. It is not counted as any candidate's time, and where it cannot be made they do without.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..record import Reason
from ..sandbox.host import CompileJob, Failure, Limits
from . import cpp, library, ninja
from .cache import Entry, Store, key
from .errors import CacheError

if TYPE_CHECKING:
    from ..sandbox.host import Sandbox

FORMAT: Final = "header 1"
SOURCE: Final = Path(__file__).parent / "include" / "lean" / "kbench" / "lean.h"
WITHOUT: Final = 3  # builds before it is made
SECONDS: Final = 300.0
MOST_BYTES: Final = 1 << 30
MOST_KEPT: Final = 2  # of other compilers and torches, those that were used last
_COMPILED: Final = f"{SOURCE.name}.gch"

_Identity = tuple[int, int, int, int]
_intact: dict[Path, _Identity] = {}


def obtain(command: Sequence[str], sandbox: Sandbox, store: Store) -> Path | None:
    """The header to include first (its compiled form lies beside it), or `None`: too early, not to be had, or busy.

    `command` compiles it, and is what later compiles must agree with.
    """
    headers = Store(store.root / "precompiled")
    parts: list[str | bytes] = [
        FORMAT,
        *command,
        cpp.compiler(),
        cpp.cpu_features(),
        importlib.metadata.version("torch"),
    ]
    parts += [path.read_bytes() for path in sorted(SOURCE.parent.glob("*.h"))]
    try:
        with headers.locked(key(parts), seconds=0) as entry:
            if not _usable(entry):
                if not _due(entry) or not _make(entry, command, sandbox, headers):
                    return None
                _drop_unused(entry)
            os.utime(entry.path)
            return entry.path / SOURCE.name if (entry.path / _COMPILED).exists() else None
    except (TimeoutError, CacheError, OSError):
        return None


def _due(entry: Entry) -> bool:
    """Whether as many builds as it takes have gone without; counts this one."""
    with _count(entry).open("ab") as file:
        if file.tell() >= WITHOUT:
            return True
        file.write(b".")
    return False


def _count(entry: Entry) -> Path:
    """A file with a byte for each build that went without."""
    return entry.path.with_name(f"{entry.path.name}.count")


def _make(entry: Entry, command: Sequence[str], sandbox: Sandbox, store: Store) -> bool:
    """Compile the header, under limits of its own: those of a candidate may be too tight for it.

    Where the compiler refuses, the entry is made without it, so that nobody tries again. False where it ran out of
    time or memory: then others wait for their turn as at first.
    """
    with store.workplace() as place:
        (place / SOURCE.name).write_bytes(SOURCE.read_bytes())
        line = (*command, "-x", "c++-header", SOURCE.name, "-o", _COMPILED)
        (place / ninja.FILE).write_text(ninja.single(line, _COMPILED), "utf-8")
        made = sandbox.compile(CompileJob(_COMPILED, place), Limits(), SECONDS)
        if isinstance(made, Failure) and made.reason is not Reason.COMPILE:
            _count(entry).unlink()
            return False
        with entry.writing() as folder:
            (folder / SOURCE.name).write_bytes(SOURCE.read_bytes())
            if not isinstance(made, Failure):
                library.keep(made, folder / _COMPILED, MOST_BYTES)
    return True


def _usable(entry: Entry) -> bool:
    """Whether the entry is complete: by its checksums once in a process, then by what a write would change.

    Reading a quarter of a gigabyte costs up to a second, a tenth of what is saved. Only the grader writes there, and
    no write leaves size and times (that of the inode cannot be set) as they were: what was intact still is.
    """
    try:
        now = _identity(entry.path / _COMPILED)
    except OSError:
        return entry.complete
    if _intact.get(entry.path) == now:
        return True
    if not entry.complete:
        return False
    _intact[entry.path] = now
    return True


def _identity(path: Path) -> _Identity:
    status = path.lstat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _drop_unused(entry: Entry) -> None:
    """Remove all but the last used of the others, if for a day nobody has used them."""
    others = [path for path in entry.path.parent.iterdir() if path.is_dir() and path.name != entry.path.name]
    for path in sorted(others, key=lambda each: each.stat().st_mtime)[: -MOST_KEPT + 1]:
        if path.stat().st_mtime < time.time() - 86_400:
            with contextlib.suppress(OSError):
                Entry(path).remove()
