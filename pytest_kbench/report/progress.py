"""A sign of life: what is being graded, when it takes long. Written past pytest's capture, to where the dots go."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

FIRST = 5.0  # seconds of silence that nobody minds
THEN = 30.0


class Progress:
    """Tells of long cases on a descriptor of its own, a copy of standard output made before pytest captures it."""

    def __init__(self) -> None:
        self._descriptor = os.dup(1)
        self._due: dict[str, tuple[float, float]] = {}  # of what runs: when it started, and when it is told of next
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look, name="kbench-progress", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and give the descriptor back."""
        self._closed.set()
        self._thread.join()
        os.close(self._descriptor)

    def start(self, name: str) -> None:
        """A case begins."""
        now = time.monotonic()
        with self._lock:
            self._due[name] = now, now + FIRST

    def end(self, name: str) -> None:
        """It has ended."""
        with self._lock:
            self._due.pop(name, None)

    def _look(self) -> None:
        while not self._closed.wait(0.5):
            for line in self._lines(time.monotonic()):
                with suppress(OSError):
                    os.write(self._descriptor, f"\nkbench: {line}\n".encode())

    def _lines(self, now: float) -> list[str]:
        with self._lock:
            late = {name: start for name, (start, due) in self._due.items() if now >= due}
            self._due.update({name: (start, now + THEN) for name, start in late.items()})
        return [f"{name} has been running for {now - start:.0f} s" for name, start in late.items()]
