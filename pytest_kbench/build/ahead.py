"""Builds that start before anybody waits for them: as many at once as there are CPUs."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

from ..sandbox.host import Failure, Program

Prepare = Callable[[], Program | Failure]


class Builds:
    """Runs builds in threads that do not keep the process alive; each is asked for by its key, and made once."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Future[Program | Failure], Prepare]] = queue.SimpleQueue()
        self._futures: dict[tuple[str, ...], Future[Program | Failure]] = {}
        self._threads = 0

    def start(self, key: tuple[str, ...], prepare: Prepare) -> None:
        """Build this as soon as a CPU is free."""
        future: Future[Program | Failure] = Future()
        self._futures[key] = future
        self._waiting.put((future, prepare))
        if self._threads < min(len(os.sched_getaffinity(0)), len(self._futures)):
            self._threads += 1
            threading.Thread(target=self._work, name="kbench-build", daemon=True).start()

    def take(self, key: tuple[str, ...]) -> Future[Program | Failure] | None:
        """The build of this key, started or done; handed out once, so that a later one sees what has changed."""
        return self._futures.pop(key, None)

    def cancel(self) -> None:
        """Start no more of them. Those that run end with the sandbox."""
        for future in self._futures.values():
            future.cancel()
        self._futures.clear()

    def _work(self) -> None:
        while True:
            future, prepare = self._waiting.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(prepare())
            except BaseException as error:  # it belongs to whoever asks for the result
                future.set_exception(error)
