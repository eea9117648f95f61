"""Where builds are kept: a folder per key, made once, by whichever process comes first.

A key is a digest of everything that a build depends on, so an entry never goes out of date. An entry is complete or
absent: it is written in a folder beside its final place and renamed when done. Whoever writes one holds a `flock` on
the key, which the kernel drops with the process: a killed builder leaves no lock behind, only a folder that the next
one removes. Beside its files an entry keeps their checksums, so that a truncated or altered one is built again.

Only the grader writes here. The folder is 0o700; sandboxed children get single entries to read.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from .errors import CacheError

_CHECKSUMS: Final = "checksums.json"
_POLL_SECONDS: Final = 0.02


def default_root() -> Path:
    """`$XDG_CACHE_HOME/pytest-kbench`, or `~/.cache/pytest-kbench` where that variable is unset or relative."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(configured) if os.path.isabs(configured) else Path.home() / ".cache"
    return base / "pytest-kbench"


def key(parts: Iterable[str | bytes]) -> str:
    """A digest that differs when any part differs, or when parts are split differently; 40 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(f"{type(part).__name__}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()[:40]


class Entry:
    """One key of the store, while its lock is held."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def complete(self) -> bool:
        """Whether the entry is there with all its files as they were written."""
        try:
            recorded = json.loads((self.path / _CHECKSUMS).read_text("utf-8"))
            return isinstance(recorded, dict) and recorded == _checksums(self.path)
        except (OSError, ValueError, RecursionError):
            return False

    @contextlib.contextmanager
    def writing(self) -> Iterator[Path]:
        """A new empty folder that becomes the entry when the block ends well, and goes away when it does not.

        Raises `CacheError` when the folder cannot be made, filled or moved into place.
        """
        with _said_as_cache_error(self.path):
            folder = Path(tempfile.mkdtemp(prefix=f"{self.path.name}.part-", dir=self.path.parent))
        try:
            with _said_as_cache_error(self.path):
                yield folder
                recorded = json.dumps(_checksums(folder), indent=0, sort_keys=True)
                (folder / _CHECKSUMS).write_text(recorded, "utf-8")
                _remove(self.path)
                os.rename(folder, self.path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def remove(self) -> None:
        """Make it absent."""
        _remove(self.path)


class Store:
    """Finished builds under `root`, shared by any number of processes."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root if root is not None else default_root()

    @contextlib.contextmanager
    def locked(self, key: str, *, seconds: float | None = None) -> Iterator[Entry]:
        """The entry of `key`, nobody else touching it meanwhile; waits for another builder for at most `seconds`.

        Raises `CacheError` when the folder cannot be used, and `TimeoutError` when the wait is over.
        """
        with _said_as_cache_error(self.root):
            entries = self._private("entries")
            locks = self._private("locks")
            descriptor = os.open(locks / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _wait_for_lock(descriptor, key, seconds)
            with _said_as_cache_error(self.root):
                for left_by_a_killed_builder in entries.glob(f"{key}.part-*"):
                    _remove(left_by_a_killed_builder)
            yield Entry(entries / key)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def workplace(self) -> Iterator[Path]:
        """A new empty folder on the same disk for the length of a block: where a compiler may write.

        Raises `CacheError`. What a killed process leaves there is removed a day later.
        """
        with _said_as_cache_error(self.root):
            shared = self._private("building")
            _remove_older_than_a_day(shared)
            folder = Path(tempfile.mkdtemp(dir=shared))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _private(self, name: str) -> Path:
        """A folder below the root that only this user may enter."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self.root.stat()
        if status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user", str(self.root))
        if stat.S_IMODE(status.st_mode) != 0o700:
            self.root.chmod(0o700)
        folder = self.root / name
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder


def _wait_for_lock(descriptor: int, key: str, seconds: float | None) -> None:
    if seconds is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"another process has been building {key} for {seconds:g} s") from None
            time.sleep(_POLL_SECONDS)


def _checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below `folder` but the list itself; a link or device in there is an error."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode) or path.name == _CHECKSUMS:
            continue
        if not stat.S_ISREG(mode):
            raise ValueError(f"{path} is not a regular file")
        with path.open("rb") as file:
            found[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _remove(path: Path) -> None:
    """Remove a folder or a file, absent or not."""
    try:
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()
    except FileNotFoundError:
        pass


def _remove_older_than_a_day(shared: Path) -> None:
    for folder in shared.iterdir():
        with contextlib.suppress(OSError):
            if folder.stat().st_mtime < time.time() - 86_400:
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _said_as_cache_error(path: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into a `CacheError` about the file it names, else about `path`."""
    try:
        yield
    except OSError as error:
        raise CacheError.of(error, path) from error
