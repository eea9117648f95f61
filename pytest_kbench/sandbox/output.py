"""What a child prints, as text that may be shown: bounded, without what could command a terminal."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from .outcome import Limits

LONGEST_MESSAGE: Final = 2000
_OURS: Final = re.compile(  # what faulthandler says beside the candidate's own frames
    rf'^(Fatal Python error: |Extension modules: |  File "({re.escape(str(Path(__file__).parent))}|<stdin>"))'
)
_THREAD: Final = re.compile(r"^((Current thread|Thread) 0x[0-9a-f]+.*|Stack) \(most recent call first\):$")


class Output:
    """What a child printed during one request: head, tail and count."""

    def __init__(self, pipe: int, limits: Limits) -> None:
        self.pipe = pipe
        self._limits = limits
        os.set_blocking(pipe, False)
        self.start()

    def start(self) -> None:
        """A new request begins."""
        self.count = 0
        self._head = bytearray()
        self._tail = bytearray()

    def drain(self) -> None:
        """Read what is there, one pipeful at most, so that a deadline is not missed while a flood comes in."""
        kept = self._limits.output_kept
        for _ in range(16 if self.pipe >= 0 else 0):
            try:
                data = os.read(self.pipe, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                return
            self.count += len(data)
            room = kept - len(self._head)
            if room > 0:
                self._head += data[:room]
                data = data[room:]
            self._tail = (self._tail + data)[-kept:]

    def close(self) -> None:
        """Close the pipe; what was read stays."""
        pipe, self.pipe = self.pipe, -1
        os.close(pipe)

    @property
    def flood(self) -> bool:
        """Whether it was more than allowed."""
        return self.count > self._limits.output_bytes

    def text(self) -> str:
        """Head and tail, as text without control characters."""
        omitted = self.count - len(self._head) - len(self._tail)
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self._head, self._tail))
        middle = f"\n[... {omitted} bytes left out ...]\n" if omitted else ""
        return printable(_without_ours(head + middle + tail))


def _without_ours(text: str) -> str:
    """The text without what faulthandler says of this package, and of the interpreter in general."""
    lines = text.split("\n")
    kept = [line for line in lines if not _OURS.match(line)]
    if len(kept) == len(lines):
        return text
    framed = [*kept[1:], ""]
    said = [
        "Most recent call first:" if _THREAD.match(line) else line
        for line, following in zip(kept, framed, strict=True)
        if not _THREAD.match(line) or following.startswith("  File ")
    ]
    return re.sub(r"\n{2,}", "\n", "\n".join(said)).lstrip("\n")


def printable(text: str) -> str:
    """A child's text with everything replaced that could command a terminal."""
    return "".join(c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def one_line(text: str) -> str:
    """A child's text as one bounded line."""
    text = printable(" ".join(text.split()))
    return text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE] + "..."
