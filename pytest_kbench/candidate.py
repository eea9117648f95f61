"""A candidate: one file, or one folder, in `candidates/<task>/` that claims to implement a task.

Finding candidates reads names only. Nothing here imports or compiles one: only a child does.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote_to_bytes

Language = Literal["python", "cpp", "cuda"]
LANGUAGES: dict[str, Language] = {".py": "python", ".cpp": "cpp", ".cu": "cuda"}
OTHERS = (".cc", ".cxx", ".c", ".C", ".so", ".hip", ".pyx")  # that people try: said, instead of passed over
INCLUDE = "_include"


class CandidateError(ValueError):
    """A path that is no candidate; the message says why."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{printable(path)}: {problem}")
        self.path = path


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file or folder of sources.

    `include` are folders of shared headers that its build may read; `flags` are given to its compiler, beside those
    that its sources ask for.
    """

    name: str
    path: Path
    sources: tuple[Path, ...]
    include: tuple[Path, ...]
    language: Language
    flags: tuple[str, ...] = ()

    @classmethod
    def at(cls, path: Path) -> Candidate:
        """The candidate at this path; raises `CandidateError`."""
        try:
            path = path.resolve()
        except (OSError, RuntimeError) as error:
            raise CandidateError(path, f"leads nowhere ({error})") from None
        if printable(path) != str(path):
            raise CandidateError(path, "its name is not UTF-8. Rename it")
        include = tuple(folder for folder in (path.parent / INCLUDE, path.parent.parent / INCLUDE) if folder.is_dir())
        if path.is_dir():
            sources = tuple(sorted(each for each in path.rglob("*") if each.suffix in LANGUAGES and each.is_file()))
            return cls(path.name, path, sources, (path, *include), _language_of_folder(path, sources))
        if not path.is_file():
            raise CandidateError(path, "no such file")
        if path.suffix not in LANGUAGES:
            raise CandidateError(path, f"a candidate ends in {', '.join(LANGUAGES)}, or is a folder of such files")
        return cls(path.name, path, (path,), include, LANGUAGES[path.suffix])

    @property
    def id(self) -> str:
        """Its name as part of a test id: anything but letters, digits and `_.+-` is percent-encoded."""
        return escaped(self.name)


def printable(path: Path | str) -> str:
    """A path as text that can be written anywhere: bytes that are no UTF-8 become escapes."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def escaped(name: str) -> str:
    """A file name as part of a test id."""
    return re.sub(r"[^A-Za-z0-9_.+-]", lambda match: "".join(f"%{byte:02X}" for byte in os.fsencode(match[0])), name)


def unescaped(name: str) -> str:
    """The inverse of `escaped`."""
    return os.fsdecode(unquote_to_bytes(name))


def find(folder: Path) -> tuple[Candidate | CandidateError, ...]:
    """Every candidate in a task's folder, sorted by name; an entry that should be one and is not, as its error.

    Names that start with `_` or `.`, headers, and files that are no sources are none.
    """
    try:
        entries = sorted(each for each in folder.iterdir() if each.name[0] not in "_.")
        return tuple(look_at(each) for each in entries if _is_candidate(each))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        return (CandidateError(folder, f"cannot be read ({error.strerror})"),)


def look_at(path: Path) -> Candidate | CandidateError:
    """The candidate at this path, or why it is none."""
    try:
        return Candidate.at(path)
    except CandidateError as error:
        return error


def _is_candidate(path: Path) -> bool:
    return path.is_dir() or path.suffix in LANGUAGES or path.suffix in OTHERS


def _language_of_folder(path: Path, sources: tuple[Path, ...]) -> Language:
    if (path / "__init__.py").is_file():
        return "python"
    suffixes = {source.suffix for source in sources}
    for suffix in (".cu", ".cpp"):
        if suffix in suffixes:
            return LANGUAGES[suffix]
    raise CandidateError(path, "a folder is a package with __init__.py, or holds .cpp or .cu files")
