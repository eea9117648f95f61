"""The gate: how fast a candidate must be, and whether its times show that it is.

`--kbench-min-speedup=1.05@eager` and a task's `min_speedup` ask for a ratio against a baseline. What decides is the
interval, never its middle: all of it must be there for a pass, and none of it for a failure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from .options import BASELINES
from .record import BEST, MISSING, Reason, Record, Timing

if TYPE_CHECKING:
    from .options import Settings
    from .task import Task

Decision = Literal["failed", "ambiguous", "passed"]
DECISIONS: tuple[Decision, ...] = ("failed", "ambiguous", "passed")  # the worst first

MOST_ON_CPU, MOST_ON_GPU = 0.03, 0.01  # by which identical programs may differ, of a log-ratio: else nothing is told
UNSEEN: Final = 0.02  # of its time: what a candidate may have hidden without being asked what if
GATE, ASKED = "gate", "required"  # facts of a record that was judged: the decision, and what was asked
UNTIMED = (Reason.MEMORY, Reason.NOT_TIMED)  # skipped: it could not be timed here
TAKES: Final = "it takes a speedup, and the baseline if it is not the best one: 1.05, 1.05@eager; 0 asks for nothing"
_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]{1,3})?"
_TEXT = re.compile(rf"({_NUMBER})(?:@([A-Za-z0-9_.-]+))?")


@dataclass(frozen=True, slots=True, repr=False)
class Required:
    """A speedup that is asked for, against a baseline's name or `BEST`: against every baseline that there is."""

    ratio: float
    baseline: str = BEST

    def __str__(self) -> str:
        number = f"{self.ratio:g}" if float(f"{self.ratio:g}") == self.ratio else repr(self.ratio)
        return number if self.baseline == BEST else f"{number}@{self.baseline}"

    def __repr__(self) -> str:
        return repr(str(self))

    @property
    def told(self) -> str:
        """For people: `1.05x against eager`."""
        return f"{self.ratio:g}x against {'the best baseline' if self.baseline == BEST else self.baseline}"


def required(given: object) -> Required | None:
    """What a text, a number or `None` asks for. Raises `ValueError`, which says what there is to write."""
    if given is None or isinstance(given, Required):
        return given
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    match = _TEXT.fullmatch(str(given)) if number or isinstance(given, str) else None
    if match is None or not math.isfinite(float(match[1])):
        raise ValueError(TAKES)
    return Required(float(match[1]), match[2] or BEST)


def asked(task: Task, settings: Settings) -> Required | None:
    """What is asked of a task's candidates: what the task says, else what the run does; `None`, if that is nothing."""
    own = required(task.min_speedup)
    found = required(settings.min_speedup) if own is None else own
    return found if found is not None and found.ratio > 0 else None


def nameable(task: Task) -> tuple[str, ...]:
    """What may stand after the @ for this task."""
    return (BEST, *BASELINES, *task.baselines)


def nowhere(settings: Settings, tasks: Iterable[Task]) -> str | None:
    """What is wrong with the run's requirement, if it names a baseline that none of these tasks has."""
    wanted = required(settings.min_speedup)
    names = dict.fromkeys(name for task in tasks for name in nameable(task))
    if wanted is None or not names or wanted.baseline in names:
        return None
    return f"{wanted}: nothing has a baseline {wanted.baseline}; choose from {', '.join(names)}"


def decided(ratio: float, timing: Timing) -> Decision:
    """Whether a comparison shows at least this speedup: its low end must be there, or its high end below.

    Nothing is decided where something else was busy, and nothing passes that the time which the candidate could have
    hidden would undo.
    """
    if timing.low is None or timing.high is None or _busy(timing) or timing.floor > _most(timing):
        return "ambiguous"
    if timing.high < ratio:
        return "failed"
    return "passed" if timing.low >= ratio and not _undone(ratio, timing) else "ambiguous"


def _busy(timing: Timing) -> bool:
    return timing.speed == "ambiguous" and timing.rejected > timing.blocks / 2


def _most(timing: Timing) -> float:
    """The largest difference of identical programs by which anything can be told."""
    return MOST_ON_GPU if timing.clock.startswith("CUDA") else MOST_ON_CPU


def _undone(ratio: float, timing: Timing) -> bool:
    """Whether it would be slower than that if it took longer by all that could be hidden, and that is not little."""
    if timing.unseen is None:
        return True
    return timing.unseen > UNSEEN and (timing.low or 0.0) / (1 + timing.unseen) < ratio


def gated(record: Record, wanted: Required | None, *, strict: bool = False) -> Record:
    """A speed record after the gate: failed if it is too slow; if `strict`, also if it is not shown to be fast enough.

    What failed already stays as it is. What was timed, but not against the baseline that is asked for, fails: a gate
    that was never looked at must not seem to hold.
    """
    if wanted is None or record.status == "failed":
        return record
    if record.status == "skipped":
        return _untimed(record, wanted) if strict and record.reason in UNTIMED else record
    timing, decision = _weakest(record, wanted)
    facts = {**record.facts, ASKED: str(wanted), GATE: decision}
    if timing is None:
        said = f"not timed: there is no comparison with {wanted.baseline}, and {wanted.told} is required"
        return replace(record, status="failed", reason=Reason.NOT_TIMED, message=_with(said, record), facts=facts)
    if decision == "passed":
        return replace(record, facts=facts)
    said = f"{'too slow' if decision == 'failed' else 'not shown to be fast enough'}: {_told(timing, wanted)}"
    if decision == "ambiguous" and wanted.baseline == BEST and MISSING in record.facts:
        said += f"; there is no comparison with {record.facts[MISSING]}"
    if decision == "ambiguous" and not strict:
        return replace(record, message=f"{record.message}\n{said}", facts=facts)
    return replace(record, status="failed", reason=Reason.SLOW, message=_with(said, record), facts=facts)


def wrong(record: Record) -> bool:
    """Whether a record failed, and not merely by the gate: then how fast the candidate is has no meaning."""
    return record.status == "failed" and GATE not in record.facts


def _untimed(record: Record, wanted: Required) -> Record:
    facts = {**record.facts, ASKED: str(wanted), GATE: "ambiguous"}
    said = f"{record.message}\n  {wanted.told} is required, and what cannot be told fails"
    return replace(record, status="failed", message=said, facts=facts)


def _weakest(record: Record, wanted: Required) -> tuple[Timing | None, Decision]:
    """The comparison that decides, and what: of several the one that speaks most against the candidate."""
    only = record.against(wanted.baseline)
    timings = record.timings if wanted.baseline == BEST else (only,) if only is not None else ()
    found = [(each, decided(wanted.ratio, each)) for each in timings]
    if MISSING in record.facts and wanted.baseline == BEST:  # the best one may be among those that are missing
        found = [(each, "ambiguous" if decision == "passed" else decision) for each, decision in found]
    return min(found, key=lambda each: (DECISIONS.index(each[1]), each[0].speedup or 0.0), default=(None, "failed"))


def _told(timing: Timing, wanted: Required) -> str:
    """How fast it is and should be: `0.93x (0.91 to 0.95) against eager, 1.05 is required`."""
    ratio = wanted.ratio
    if timing.low is None or timing.high is None or timing.speedup is None or _busy(timing):
        return f"{timing.told.removeprefix('ambiguous: ')}; {ratio:g}x against {timing.baseline} is required"
    ends = (timing.low, timing.high)
    digits = next((n for n in range(3, 7) if all(_same_side(end, ratio, n) for end in ends)), 7)
    speedup, low, high = (f"{each:.{digits}g}" for each in (timing.speedup, *ends))
    hidden = "nobody knows how much" if timing.unseen is None else f"{timing.unseen:.0%}"
    doubt = f", and {hidden} of its time could be hidden" if timing.low >= ratio else ""
    return f"{speedup}x ({low} to {high}) against {timing.baseline}, {ratio:g} is required{doubt}"


def _same_side(end: float, ratio: float, digits: int) -> bool:
    """Whether an end that is written with so many digits still lies on its side of the ratio."""
    return (float(f"{end:.{digits}g}") < ratio) == (end < ratio)


def _with(said: str, record: Record) -> str:
    """The verdict, and below it what was measured."""
    return f"{said}\n  {record.message}" if record.message else said
