"""From sources to a library in the cache, the same for every binding: stage, compile in the sandbox, copy, keep."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..record import Reason
from ..sandbox.host import CompileJob, Failure
from . import ninja
from .cache import Entry, Store
from .errors import CacheError, EnvironmentFault

if TYPE_CHECKING:
    from ..sandbox.host import Limits, Sandbox
    from .sources import Sources

LIBRARY: Final = "kernel.so"
MOST_LIBRARY_BYTES: Final = 256 << 20
LEAST_FREE: Final = 1 << 20  # bytes of a disk on which a compiler can fail for lack of room


@contextmanager
def entry_of(store: Store, this_build: str, path: Path, seconds: float) -> Iterator[Entry]:
    """The cache's entry of a build of the candidate at `path`, with its lock held.

    Raises `CacheError`, and `EnvironmentFault` when another process has been building it for longer than `seconds`.
    """
    try:
        with store.locked(this_build, seconds=seconds) as entry:
            yield entry
    except TimeoutError as error:
        raise EnvironmentFault(
            f"another process has been building the same candidate for {seconds:g} s",
            path=path,
            fix="Wait for it, or end it.",
        ) from error


def compiled(
    sources: Sources,
    tools: ninja.Tools,
    place: Path,
    sandbox: Sandbox,
    limits: Limits,
    seconds: float,
    *,
    generated: Sequence[tuple[str, str]] = (),
    readable: Sequence[Path] = (),
    target: str | None = None,
) -> Path | Failure:
    """Stage the sources in `place`, with `generated` files (name, text) beside them, and compile them there.

    `readable` is what the build may read besides. `target` is what of it is made: the library, if nothing is said.
    Commands run in `place` and name its files as they lie below it. Raises `CacheError` where the disk is full.
    """
    units = []
    try:
        sources.stage(place)
        for name, text in generated:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text, "utf-8")
        for number, source in enumerate(sources.units):
            # The file's own name may be anything: the compiler is given one that includes it.
            units.append(f"unit{number}{source.path.suffix}")
            (place / units[-1]).write_text(f'#include "{source.staged}"\n', "utf-8", "surrogateescape")
        (place / ninja.FILE).write_text(ninja.plan(tools, units, LIBRARY), "utf-8")
    except OSError as error:
        raise CacheError.of(error, place) from error
    made = sandbox.compile(CompileJob(target or LIBRARY, place, tuple(readable)), limits, seconds)
    if isinstance(made, Failure) and shutil.disk_usage(place).free < LEAST_FREE:
        raise CacheError.of(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place.parent)), place)
    if isinstance(made, Path) and made.lstat().st_size > MOST_LIBRARY_BYTES:
        return Failure(Reason.COMPILE, f"its library has more than {MOST_LIBRARY_BYTES >> 20} MiB.")
    return made


def keep(made: Path, target: Path, most: int = MOST_LIBRARY_BYTES) -> None:
    """Copy what a child made into a file that the child has never been able to write.

    Raises `CacheError` for what is no regular file or has more than `most` bytes.
    """
    descriptor = os.open(made, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as source:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            raise CacheError("what the compiler left is no library", path=made, fix="Build again.")
        with target.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
    target.chmod(0o500)


def built(entry: Entry, store: Store, make: Callable[[Path], Path | Failure]) -> Failure | None:
    """Fill an entry with the library that `make` compiles in an empty folder; its failure, if it fails."""
    with store.workplace() as place:
        made = make(place)
        if isinstance(made, Failure):
            return made
        with entry.writing() as folder:
            keep(made, folder / LIBRARY)
    return None
