"""A sign of life: what is being graded, when it takes long. Written past pytest's capture, to where the dots go."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

FIRST = 5.0  # seconds of silence that nobody minds
THEN = 30.0


class Progress:
    """Tells of long steps on a descriptor of its own, a copy of standard output made before pytest captures it."""

    def __init__(self) -> None:
        self._descriptor = os.dup(1)
        self._now: tuple[str, float] | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look, name="kbench-progress", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and give the descriptor back."""
        self._closed.set()
        self._thread.join()
        os.close(self._descriptor)

    @contextmanager
    def watch(self, what: str) -> Iterator[None]:
        """Tell of the block when it has been running for some seconds, and now and then later."""
        self._now = what, time.monotonic()
        try:
            yield
        finally:
            self._now = None

    def _look(self) -> None:
        told: tuple[str, float] | None = None
        due = 0.0
        while not self._closed.wait(0.5):
            now = self._now
            if now is None:
                continue
            what, start = now
            if now != told:
                told, due = now, start + FIRST
            if time.monotonic() >= due:
                due += THEN
                text = f"\nkbench: {what} has been running for {time.monotonic() - start:.0f} s\n"
                with suppress(OSError):
                    os.write(self._descriptor, text.encode())
