"""A candidate: one file, or one folder, in `candidates/<task>/` that claims to implement a task.

Finding candidates reads names only. Nothing here imports or compiles one: only a child does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Language = Literal["python", "cpp", "cuda"]
LANGUAGES: dict[str, Language] = {".py": "python", ".cpp": "cpp", ".cu": "cuda"}
INCLUDE = "_include"


class CandidateError(ValueError):
    """A path that is no candidate; the message says why."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file or folder of sources. `include` are folders of shared headers that its build may read."""

    name: str
    path: Path
    sources: tuple[Path, ...]
    include: tuple[Path, ...]
    language: Language

    @classmethod
    def at(cls, path: Path) -> Candidate:
        """The candidate at this path; raises `CandidateError`."""
        path = path.resolve()
        include = tuple(folder for folder in (path.parent / INCLUDE, path.parent.parent / INCLUDE) if folder.is_dir())
        if path.is_dir():
            sources = tuple(sorted(each for each in path.rglob("*") if each.suffix in LANGUAGES and each.is_file()))
            return cls(path.name, path, sources, (path, *include), _language_of_folder(path, sources))
        if not path.is_file():
            raise CandidateError(f"{path}: no such file")
        if path.suffix not in LANGUAGES:
            raise CandidateError(f"{path}: a candidate ends in {', '.join(LANGUAGES)}, or is a folder of such files")
        return cls(path.name, path, (path,), include, LANGUAGES[path.suffix])

    @property
    def id(self) -> str:
        """Its name as part of a test id: anything but letters, digits and `_.+-` is percent-encoded."""
        return re.sub(
            r"[^A-Za-z0-9_.+-]", lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), self.name
        )


def find(folder: Path) -> tuple[Candidate, ...]:
    """Every candidate in a task's folder, sorted by name; names that start with `_` or `.` and headers are none."""
    if not folder.is_dir():
        return ()
    entries = (each for each in sorted(folder.iterdir()) if each.name[0] not in "_.")
    return tuple(Candidate.at(each) for each in entries if _is_candidate(each))


def _is_candidate(path: Path) -> bool:
    if path.is_dir():
        return any(each.suffix in LANGUAGES for each in path.rglob("*"))
    return path.suffix in LANGUAGES


def _language_of_folder(path: Path, sources: tuple[Path, ...]) -> Language:
    if (path / "__init__.py").is_file():
        return "python"
    suffixes = {source.suffix for source in sources}
    for suffix in (".cu", ".cpp"):
        if suffix in suffixes:
            return LANGUAGES[suffix]
    raise CandidateError(f"{path}: a folder is a package with __init__.py, or holds .cpp or .cu files")
