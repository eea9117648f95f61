"""The bytes that a C++ build is made of, read once: what is hashed is what is compiled.

A build gets copies of these and sees no other file of the project, so a header that is not part of the key cannot be
part of the result either.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .errors import BuildError

if TYPE_CHECKING:
    from ..candidate import Candidate

UNIT_SUFFIXES: Final = frozenset({".cpp", ".cu"})
HEADER_SUFFIXES: Final = frozenset({".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl", ".ipp", ".tpp"})
MOST_BYTES: Final = 32 << 20  # of one candidate with its headers: far more than anybody writes
MOST_OF_ONE: Final = 1 << 20  # of one source file, which is read by more than the compiler
OWN: Final = "candidate"  # the candidate's folder as the compiler sees it


@dataclass(frozen=True, slots=True)
class Source:
    """A file as it was when the build began. `staged` is where the build finds it, `shown` what messages call it."""

    path: Path
    staged: str
    shown: str
    data: bytes
    unit: bool  # compiled by itself, not only included

    @property
    def text(self) -> str:
        """Its text; bytes that are not UTF-8 are replaced."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that a candidate's build reads, and the staged include folders in their order of search."""

    files: tuple[Source, ...]
    include: tuple[str, ...]

    @property
    def units(self) -> tuple[Source, ...]:
        """The files that are compiled by themselves."""
        return tuple(source for source in self.files if source.unit)

    def stage(self, folder: Path) -> None:
        """Write all files below `folder`, which must be empty."""
        for name in self.include:
            (folder / name).mkdir(exist_ok=True)
        for source in self.files:
            target = folder / source.staged
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.data)


def gather(candidate: Candidate) -> Sources:
    """Read a candidate's units, the headers beside them and those of its include folders.

    A single file brings the headers of its own folder, a folder everything below it. Raises `BuildError` for a file
    that cannot be read, is no regular file, links to somewhere else, or is out of all proportion.
    """
    folder = candidate.path
    root = folder if folder.is_dir() else folder.parent
    units = [path for path in candidate.sources if path.suffix in UNIT_SUFFIXES]
    headers = _headers(root, deep=folder.is_dir())
    prefix = f"{folder.name}/" if folder.is_dir() else ""
    files = [_read(path, root, OWN, prefix, unit=True) for path in units]
    files += [_read(path, root, OWN, prefix, unit=False) for path in headers]
    include = []
    for number, place in enumerate(candidate.include):
        if place == root:
            include.append(OWN)
            continue
        include.append(f"include{number}")
        files += [
            _read(path, place, f"include{number}", f"{place.name}/", unit=False) for path in _headers(place, deep=True)
        ]
    if sum(len(source.data) for source in files) > MOST_BYTES:
        raise BuildError(
            f"its sources and headers have more than {MOST_BYTES >> 20} MiB",
            path=folder,
            fix="Remove what is not needed to compile it.",
        )
    return Sources(tuple(files), tuple(include))


def _headers(folder: Path, *, deep: bool) -> Iterator[Path]:
    found = folder.rglob("*") if deep else folder.glob("*")
    return iter(sorted(path for path in found if path.suffix in HEADER_SUFFIXES and not path.is_dir()))


def _read(path: Path, root: Path, staged: str, shown: str, *, unit: bool) -> Source:
    relative = path.relative_to(root).as_posix()
    if any(character in relative for character in '"\\\n\r'):
        raise BuildError("this name cannot be written in an #include line", path=path, fix="Rename the file.")
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root.resolve()):
            raise BuildError("it links to a file outside its folder", path=path, fix="Put a copy there instead.")
        data = _bytes(real)
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BuildError(f"it cannot be read ({why})", path=path, fix="Check the file.") from error
    if data is None:
        raise BuildError("it is not a regular file", path=path, fix="Put a file there.")
    return Source(path, f"{staged}/{relative}", f"{shown}{relative}", data, unit)


def _bytes(path: Path) -> bytes | None:
    """What a file holds, bounded, without ever waiting for a FIFO or a device; `None` if it is no regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        return file.read(MOST_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def fingerprint(candidate: Candidate) -> str:
    """A hash that changes when a file does that the candidate is made from, told from names, sizes and times."""
    digest = hashlib.sha256()
    folders = {candidate.path if candidate.path.is_dir() else candidate.path.parent, *candidate.include}
    headers = [header for folder in sorted(folders) for header in _headers(folder, deep=folder in candidate.include)]
    for path in (*candidate.sources, *headers):
        try:
            status = os.stat(path)
            told = f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        except OSError as error:
            told = str(error)
        digest.update(os.fsencode(path) + b"\0" + told.encode() + b"\0")
    return digest.hexdigest()
