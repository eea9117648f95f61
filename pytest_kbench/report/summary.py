"""What a run says of speed as a whole: how many candidates are fast, by how much, and which are right and slower.

The unit is the case: one shape (or its backward) of one candidate. Every speed case of a candidate that was graded
counts, also where nothing was timed because the candidate failed. A candidate that was not graded at all, for want of
a device say, counts nowhere, nor does a backward that it does not have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..gate import DECISIONS, GATE, decided, wrong
from ..record import BEST, SWEPT, Reason, Record, Timing

FASTER_THAN: Final = (1.0, 1.5, 2.0)  # the p of fast_p
WORDS: Final = ("faster", "same", "slower", "ambiguous")


@dataclass(frozen=True, slots=True)
class Mean:
    """The geometric mean of speedups, with an interval of the same confidence as theirs."""

    speedup: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Against:
    """All cases against one baseline; against `BEST` each case has the baseline that leaves it the least speedup.

    `timed` cases were compared, of candidates that are right: of these are the four words and the mean. `fast` is
    fast_p: the part of all cases, failures included, in which the candidate is right and the interval of its speedup
    lies above p, whatever it may have hidden: as the gate would have it.
    """

    baseline: str
    timed: int
    faster: int
    same: int
    slower: int
    ambiguous: int
    fast: Mapping[str, float]
    mean: Mean | None


@dataclass(frozen=True, slots=True)
class Slower:
    """A candidate that is right, in the case in which it is slowest beside the best baseline, and that one's name."""

    task: str
    candidate: str
    case: str
    baseline: str
    speedup: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Candidates that were graded, that are right, and of these that were timed; their speed cases; what came of them.

    `gate` counts the cases that the gate judged, by its decision.
    """

    candidates: int
    right: int
    timed: int
    cases: int
    against: tuple[Against, ...]
    slower: tuple[Slower, ...]
    gate: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def summary(records: Sequence[Record]) -> Summary | None:
    """What these records say of speed; `None` if nothing was timed."""
    grouped: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        grouped.setdefault((record.task, record.candidate), []).append(record)
    graded = [each for each in grouped.values() if any(record.status != "skipped" for record in each)]
    right = [each for each in graded if not any(map(wrong, each))]
    timed = [record for each in right for record in each if record.timings and SWEPT not in record.facts]
    named = [record for record in records if SWEPT not in record.facts]
    baselines = dict.fromkeys(timing.baseline for record in named for timing in record.timings)
    if not baselines:
        return None
    cases = sum(_is_case(record) for each in graded for record in each)
    decisions = [record.facts[GATE] for record in records if GATE in record.facts]
    return Summary(
        candidates=len(graded),
        right=len(right),
        timed=len({(record.task, record.candidate) for record in timed}),
        cases=cases,
        against=tuple(against(name, timed, cases) for name in (*baselines, BEST)),
        slower=slower(timed),
        gate={name: decisions.count(name) for name in DECISIONS if decisions},
    )


def _is_case(record: Record) -> bool:
    """Whether it is a speed case that the candidate was asked; a backward that it lacks it was not."""
    if record.check != "speed" or SWEPT in record.facts:
        return False
    return not (record.status == "skipped" and record.reason is Reason.UNSUPPORTED)


def against(baseline: str, timed: Sequence[Record], cases: int) -> Against:
    """The cases that were timed, of right candidates, beside one baseline; `cases` is the number of all."""
    timings = [timing for record in timed if (timing := record.against(baseline)) is not None]
    words = {word: sum(timing.speed == word for timing in timings) for word in WORDS}
    fast = {f"{p:g}": sum(_above(p, timing) for timing in timings) / cases for p in FASTER_THAN}
    return Against(baseline, len(timings), **words, fast=fast, mean=mean(timings))


def _above(p: float, timing: Timing) -> bool:
    return timing.low is not None and timing.low > p and decided(p, timing) == "passed"


def mean(timings: Sequence[Timing]) -> Mean | None:
    """The geometric mean of those speedups that are known.

    A speedup's logarithm is taken to be uncertain by half the width of its interval, independently of the others: then
    half the width of the mean's is the root of the sum of their squares over their number. The confidence is theirs.
    """
    known = [ends for timing in timings if (ends := _ends(timing)) is not None]
    if not known:
        return None
    middle = math.fsum(math.log(speedup) for speedup, _, _ in known) / len(known)
    half = math.sqrt(math.fsum(math.log(high / low) ** 2 for _, low, high in known)) / 2 / len(known)
    return Mean(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def _ends(timing: Timing) -> tuple[float, float, float] | None:
    """Speedup, low and high end, where they are known."""
    if timing.speedup is None or timing.low is None or timing.high is None:
        return None
    return timing.speedup, timing.low, timing.high


def slower(timed: Sequence[Record]) -> tuple[Slower, ...]:
    """Candidates that are slower than the best baseline in some case, each in its worst, the slowest first."""
    worst: dict[tuple[str, str], Slower] = {}
    for record in timed:
        timing = record.against(BEST)
        ends = _ends(timing) if timing is not None and timing.speed == "slower" else None
        if timing is None or ends is None:
            continue
        found = Slower(record.task, record.candidate, record.case or "", timing.baseline, *ends)
        key = (record.task, record.candidate)
        worst[key] = min(worst.get(key, found), found, key=lambda each: each.speedup)
    return tuple(sorted(worst.values(), key=lambda each: each.speedup))
