"""Folders in which one candidate's children keep what they compile, from one child to the next and from run to run.

A place stands for a candidate's content, and has a few folders. One is lent to one child at a time, which alone may
write there. Compilers write a folder's path into what they make, so it never changes: children that run at once have
a folder each, and compile each for itself. When a child ends, its folder is looked through before it is kept: only
plain files of bounded size and number stay. It is emptied instead if the child died while it may have been writing, or
never got as far as an answer; a grader that was killed counts as such a death.

Nothing in such a folder is ever opened here, and nothing in it is believed: it can harm only the candidate it belongs
to. Where no folder is to be had (a full disk, a read-only one), there is none, and a child compiles in its scratch.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

AT_ONCE: Final = 8  # folders of one place
MOST_BYTES: Final = 1 << 30  # of one folder
MOST_ENTRIES: Final = 20_000  # of one folder: files and folders
MOST_DEPTH: Final = 16
MOST_OF_ALL: Final = 4 << 30  # bytes of all folders together
LONGEST: Final = 14 * 86_400.0  # seconds that a folder is kept without being used
LEAST_FREE: Final = 256 << 20  # bytes on the disk, below which none is lent
TIDY_EVERY: Final = 3600.0  # seconds between looks at all folders, if little comes in
TIDY_AFTER: Final = 512 << 20  # bytes taken back, after which they are looked at earlier
REMOVAL: Final = 3.0  # seconds that one removal may take; a disk may need a millisecond for each of a million folders
TICK: Final = 0.02  # seconds by which a file's time may be behind the clock

_KEPT: Final = b"kept "
_GONE: Final = ".gone-"
_LOCK: Final = ".lock"
_tidied: dict[Path, float] = {}
_untidied: dict[Path, int] = {}
_numbers = itertools.count()


class Kept:
    """One folder while it is lent: `path` is for one child."""

    def __init__(self, path: Path, lock: IO[bytes]) -> None:
        self.path = path
        self._lock = lock

    def take_back(self, *, ended: bool, asked: float | None, sound: bool) -> None:
        """The child is gone: keep what it left, or not. Raises nothing; later calls do nothing.

        `ended` says that nothing of the child lives; `asked` is when it was asked what it never answered, by
        `time.time`; `sound` whether it was of any use.
        """
        if self._lock.closed:
            return
        with self._lock, contextlib.suppress(OSError):
            if not ended:
                _set_aside(self.path)  # something may still write there, and lead us elsewhere
                return
            size = tidy(self.path) if sound and not _written_since(self.path, asked) else None
            if size is None:
                remove(self.path)
                size = 0
            _untidied[self.path.parent] = _untidied.get(self.path.parent, 0) + size
            _write(self._lock, _KEPT + str(size).encode())


def lend(place: Path) -> Kept | None:
    """A folder of this place that nobody else has; `None` where there is none to be had.

    The parent of `place` is made, for this user alone; there, folders of all places that are old or too many go.
    """
    try:
        _make_private(place.parent)
        _tidy_all(place.parent)
        disk = os.statvfs(place.parent)
        if disk.f_bavail * disk.f_frsize < LEAST_FREE:
            return None
        for number in range(AT_ONCE):
            with contextlib.suppress(BlockingIOError):
                return _lend(place.with_name(f"{place.name}.{number}"))
    except OSError:
        pass
    return None


def _lend(path: Path) -> Kept:
    """Lend one folder. Raises `BlockingIOError` when somebody has it, and other `OSError`s."""
    lock = _locked(path)
    try:
        if not _is_kept(lock):
            remove(path)
        _write(lock, b"lent")  # and if nobody takes it back, the next one finds this
        path.mkdir(mode=0o700, exist_ok=True)
    except BaseException:
        lock.close()
        raise
    return Kept(path, lock)


def _locked(path: Path) -> IO[bytes]:
    """The lock beside a folder, held until it is closed or this process ends."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.fdopen(os.open(f"{path}{_LOCK}", flags, 0o600), "r+b", buffering=0)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            lock.close()
            raise
        if os.fstat(lock.fileno()).st_nlink:
            return lock
        lock.close()  # it was removed between our opening and our locking it


def _is_kept(lock: IO[bytes]) -> bool:
    return os.pread(lock.fileno(), 100, 0).startswith(_KEPT)


def _write(lock: IO[bytes], text: bytes) -> None:
    os.ftruncate(lock.fileno(), 0)
    os.pwrite(lock.fileno(), text, 0)


def _make_private(root: Path) -> None:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.lstat(root)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(f"{root} is not a folder of this user's own")
    if stat.S_IMODE(status.st_mode) != 0o700:
        root.chmod(0o700)


# What a child left.


def _below(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below a folder, with what lstat says, folders before what is in them. Raises `OSError`, also when
    there is more, or it is deeper, than anybody needs."""
    folders, count = [(str(path), 0)], 0
    while folders:
        folder, depth = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                count += 1
                if count > MOST_ENTRIES or depth >= MOST_DEPTH:
                    raise OSError("too many files, or too deep")
                yield entry.path, status
                if stat.S_ISDIR(status.st_mode):
                    folders.append((entry.path, depth + 1))


def tidy(path: Path) -> int | None:
    """Make a dead child's folder the grader's own again; its size in bytes, or `None` where it is not to be kept.

    Links, pipes, sockets and locks are removed, and rights of others and to change identity are taken from files.
    """
    user, group, total = os.geteuid(), os.getegid(), 0
    try:
        for name, status in _below(path):
            if stat.S_ISDIR(status.st_mode):
                mode = 0o700
            elif stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and not _is_lock(name):
                total += max(status.st_size, status.st_blocks * 512)
                mode = 0o600 | status.st_mode & 0o100
            else:
                os.unlink(name)
                continue
            if status.st_uid != user:
                os.chown(name, user, group, follow_symlinks=False)
            if stat.S_IMODE(status.st_mode) != mode or status.st_uid != user:
                os.chmod(name, mode)
            if total > MOST_BYTES:
                return None
        if os.lstat(path).st_uid != user:
            os.chown(path, user, group)
    except OSError:
        return None
    return total


def _is_lock(name: str) -> bool:
    """By name: torch's load_inline waits for ever for a file that a killed process left."""
    return name.endswith((_LOCK, "/lock"))


def _written_since(path: Path, asked: float | None) -> bool:
    """Whether anything below changed after a moment, in content or otherwise: a child cannot set that time."""
    if asked is None:
        return False
    try:
        return any(status.st_ctime >= asked - TICK for _, status in _below(path))
    except OSError:
        return True


def _set_aside(path: Path) -> Path:
    """Give a folder another name, so that its own is free at once."""
    aside = path.with_name(f"{path.name}{_GONE}{os.getpid()}-{next(_numbers)}-{os.urandom(4).hex()}")
    os.rename(path, aside)
    return aside


def remove(path: Path) -> None:
    """Remove a folder, however deep a child made it, and whatever rights it left. Nothing may write there any more.

    A folder that is not there is none. Raises `OSError`: what could not be removed in time has another name by then,
    and its removal goes on some other day.
    """
    end = time.monotonic() + REMOVAL
    try:
        path = path if _GONE in path.name else _set_aside(path)
    except FileNotFoundError:
        return
    os.chmod(path, 0o700)
    left = True
    while left:  # no recursion: what is in a folder moves up, so that no path gets long
        left = False
        with os.scandir(path) as entries:
            for entry in list(entries):
                if time.monotonic() > end:
                    raise TimeoutError(f"{path} is too large to be removed at once")
                if entry.is_dir(follow_symlinks=False):
                    left = True
                    _flatten(entry.path, path)
                else:
                    os.unlink(entry.path)
    os.rmdir(path)


def _flatten(folder: str, top: Path) -> None:
    """Remove one folder; the folders in it move to the top."""
    os.chmod(folder, 0o700)
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)
                os.rename(entry.path, top / f"{os.urandom(8).hex()}-{next(_numbers)}")
            else:
                os.unlink(entry.path)
    os.rmdir(folder)


# All of them.


def _tidy_all(root: Path) -> None:
    """Now and then, remove what has not been used for long, what is too much, and what was set aside."""
    now = time.monotonic()
    if now - _tidied.get(root, -TIDY_EVERY) < TIDY_EVERY and _untidied.get(root, 0) < TIDY_AFTER:
        return
    _tidied[root], _untidied[root] = now, 0
    for aside in root.glob(f"*{_GONE}*"):
        with contextlib.suppress(OSError):
            if os.lstat(aside).st_ctime < time.time() - TIDY_EVERY:
                remove(aside)
    total = 0
    for used, size, name in sorted(_sizes(root), reverse=True):
        total += size
        if total > MOST_OF_ALL or used < time.time() - LONGEST:
            with contextlib.suppress(OSError):
                _forget(root / name)


def _sizes(root: Path) -> Iterator[tuple[float, int, str]]:
    """When each folder was last used, its size, and its name."""
    for path in root.glob(f"*{_LOCK}"):
        with contextlib.suppress(OSError):
            said = path.read_bytes()[len(_KEPT) :]
            yield path.stat().st_mtime, int(said) if said.isdigit() else 0, path.name.removesuffix(_LOCK)


def _forget(path: Path) -> None:
    """Remove a folder and its lock, unless somebody has it (`BlockingIOError`)."""
    with _locked(path):
        remove(path)
        os.unlink(f"{path}{_LOCK}")
