"""What compilers print, as a candidate's author wants to read it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..record import Reason
from ..sandbox.host import Failure

if TYPE_CHECKING:
    from .sources import Sources

MOST_LINES: Final = 40

_ERROR: Final = re.compile(
    r"(?:^|\s)(?:fatal |internal compiler |catastrophic )?error(?: #\S+)?\s?:|:\d+: Error: "
    r"|undefined reference to|multiple definition of"
)
_CONTEXT: Final = re.compile(
    r"^\s+from |In file included from|In instantiation of|In substitution of|required (from|by)"
)
_NOISE: Final = re.compile(r"^(ninja: |ninja exited |\[\d+/\d+\] |stdout:$|stderr:$)")
_FAILED: Final = "FAILED: "


def readable(failure: Failure, sources: Sources, seconds: float) -> Failure:
    """A build's failure with the author's own file names, from the first error on, bounded."""
    if failure.reason is Reason.TIMEOUT:
        return Failure(Reason.TIMEOUT, f"compiling took longer than {seconds:g} s.", failure.detail)
    if failure.reason is not Reason.COMPILE:
        return failure
    said = _without_commands((failure.detail or failure.message).splitlines())
    lines = [_shortened(line, sources) for line in said]
    first = next((number for number, line in enumerate(lines) if _ERROR.search(line)), None)
    if first is None:
        return Failure(Reason.COMPILE, "the compiler failed without an error message.", "\n".join(lines[-MOST_LINES:]))
    start = first
    own = tuple(source.shown for source in sources.files)
    if not lines[first].startswith(own):
        while start > 0 and first - start < MOST_LINES // 2 and _CONTEXT.search(lines[start - 1]):
            start -= 1
    shown = lines[start : start + MOST_LINES]
    if len(lines) > start + MOST_LINES:
        shown.append(f"... {len(lines) - start - MOST_LINES} more lines")
    return Failure(Reason.COMPILE, lines[first].strip()[:300], "\n".join(line[:300] for line in shown))


def _without_commands(lines: list[str]) -> list[str]:
    """What compilers said, without what ninja says, and without the command that it repeats after a failure."""
    kept = []
    after_failure = False
    for line in lines:
        if not after_failure and not _NOISE.match(line) and not line.startswith(_FAILED):
            kept.append(line)
        after_failure = line.startswith(_FAILED)
    return kept


def _shortened(line: str, sources: Sources) -> str:
    """The line with the names of staged copies replaced by those that messages use."""
    for source in sources.files:
        line = line.replace(source.staged, source.shown)
    return line
