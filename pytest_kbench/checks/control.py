"""The control: the task's own reference as a candidate, asked where a candidate's values are wrong.

Libraries have faults on some machines: a convolution in bfloat16 that reads memory which nobody wrote, where rows are
one element long. Whoever calls the library is as wrong there as the reference, and neither may be judged by it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from ..case import Call
from ..record import Reason
from ..sandbox.host import Failure
from .bench import Bench
from .judge import Finding, judge
from .timekeeper import reference_program

TRIED = 2  # times that the calls of a case are made: what shows may be memory


@dataclass(slots=True)
class Control:
    """The reference in a child of its own, beside a candidate's, in which the same calls came before."""

    bench: Bench
    sound: bool  # whether it is right in plain calls; else what runs there is something else, and excuses nobody
    beside_of: object = None  # the candidate's child whose calls it has had

    @classmethod
    def beside(cls, other: Bench) -> Control:
        """The control of a candidate. Raises what `Bench.call` raises."""
        bench = other.beside(reference_program(other.task.function, other.settings.device))
        try:
            calls = [call for dtype in other.task.dtypes for call in other.plain_calls(dtype)[:1]]
            return cls(bench, is_right(bench, calls))
        except BaseException:
            bench.close()
            raise

    def wrong(self, other: Bench, calls: Sequence[Call]) -> Finding | None:
        """How it fails the last calls of the candidate's child. Raises what `Bench.call` raises."""
        if not self.sound:
            return None
        try:
            if self.beside_of is not other.process:
                self._follow(other)
            tried = (_wrong(self.bench, call) for call in (*calls,) * TRIED)
            found = next((each for each in tried if each is not None), None)
        finally:
            self.bench.release()
        return found if found is not None and found.reason in (Reason.WRONG, Reason.NONFINITE) else None

    def _follow(self, other: Bench) -> None:
        """Make the calls that the candidate's present child has had, in a new child."""
        self.bench.renew()
        until = time.monotonic() + other.settings.timeout
        for call in takewhile(lambda _: time.monotonic() < until, other.history):
            self.bench.call(call, hold=0)
        self.beside_of = other.process

    def close(self) -> None:
        """End its child."""
        self.bench.close()


def is_right(bench: Bench, calls: Sequence[Call]) -> bool:
    """Whether a program answers these calls, and rightly. Raises what `Bench.call` raises."""
    try:
        return all(_wrong(bench, call) is None for call in calls)
    finally:
        bench.release()


def _wrong(bench: Bench, call: Call) -> Finding | None:
    answer = bench.call(call, hold=0)
    if isinstance(answer.returned, Failure):
        return Finding(answer.returned.reason, answer.returned.message)
    found = judge(bench.task, answer, answer.returned)
    return found if isinstance(found, Finding) else None
