"""One machine-wide lock per device: what is timed has it alone, what is checked shares it.

Two files: whoever wants the device passes a gate first, so that one who waits to be alone is not overtaken for ever by
those who share. Locks are the kernel's (flock), and go with the process that holds them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


class DeviceLock:
    """The lock of a device of this name, for all processes of this user on this machine.

    Where its folder cannot be written there is none: what is timed then may be disturbed, and says so.
    """

    def __init__(self, device: str, folder: Path | None = None) -> None:
        place = folder or Path(tempfile.gettempdir()) / f"pytest-kbench-{os.geteuid()}"
        self._paths = [place / f"{device.replace(':', '-')}.{name}" for name in ("gate", "lock")]

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Be one of several that use the device."""
        with self._held(fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Use the device with nobody else: waits until all others have let go of it."""
        with self._held(fcntl.LOCK_EX):
            yield

    def beside(self, other: DeviceLock) -> Both:
        """This lock, for whoever shares another device too: work on a GPU takes the machine's time as well."""
        return Both(self, other)

    @contextlib.contextmanager
    def _held(self, kind: int) -> Iterator[None]:
        with contextlib.ExitStack() as files:
            try:
                self._paths[0].parent.mkdir(mode=0o700, exist_ok=True)
                gate, lock = (files.enter_context(open(path, "ab")) for path in self._paths)
            except OSError:
                yield
                return
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(lock, kind)
            fcntl.flock(gate, fcntl.LOCK_UN)
            yield


class Both:
    """The locks of two devices, of which the second is always shared."""

    def __init__(self, device: DeviceLock, other: DeviceLock) -> None:
        self._device, self._other = device, other

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Be one of several that use both."""
        with self._other.shared(), self._device.shared():
            yield

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Use the first with nobody else."""
        with self._other.shared(), self._device.alone():
            yield
