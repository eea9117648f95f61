"""What goes wrong in a build that a person can fix."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Final


class BuildError(Exception):
    """A build that cannot go on, with the file it is about and what to do.

    `line` is the line of `path`, counted from 1, where there is one.
    """

    def __init__(self, what: str, *, path: Path, fix: str, line: int | None = None) -> None:
        super().__init__(what, path, fix, line)
        self.what = what
        self.path = path
        self.fix = fix
        self.line = line

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line is not None else str(self.path)
        return f"{where}: {self.what}. {self.fix}"


_KEY: Final = re.compile(r"[0-9a-f]{40}")
_FIXES: Final = {
    errno.ENOSPC: "Free some space there, or set XDG_CACHE_HOME to a folder on another disk.",
    errno.EDQUOT: "The quota there is used up: free some space, or set XDG_CACHE_HOME to a folder elsewhere.",
    errno.EROFS: "That file system is read-only: set XDG_CACHE_HOME to a folder that can be written.",
    errno.EACCES: "Set XDG_CACHE_HOME to a folder that you may write.",
    errno.EPERM: "Set XDG_CACHE_HOME to a folder that you own.",
    errno.ENOTDIR: "A file is in the way: remove it, or set XDG_CACHE_HOME to another folder.",
    errno.EEXIST: "A file is in the way: remove it, or set XDG_CACHE_HOME to another folder.",
}


class EnvironmentFault(BuildError):
    """This machine cannot build, whatever the candidate is."""


class CacheError(EnvironmentFault):
    """The cache folder cannot be used. `errno` is the operating system's, `None` where it said nothing."""

    def __init__(self, what: str, *, path: Path, fix: str, number: int | None = None) -> None:
        super().__init__(what, path=path, fix=fix)
        self.errno = number

    @classmethod
    def of(cls, error: OSError, path: Path) -> CacheError:
        """The same failure with the path it is about and the usual way out of it."""
        said = (error.strerror or str(error) or type(error).__name__).lower()
        place = Path(error.filename or path)
        while any(_KEY.match(part) for part in place.parts):  # a digest says nothing to anybody
            place = place.parent
        fix = _FIXES.get(error.errno or 0, "Set XDG_CACHE_HOME to a folder that works.")
        return cls(f"the build cache cannot be used ({said})", path=place, fix=fix, number=error.errno)
