"""Two arms in blocks of turns, until the interval of their ratio is narrow or the time is spent.

The loop knows no device: `take` makes one block. So simulations test it with a clock of their own.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from . import stats
from .stats import Interval, Precision, Speed

Name = Literal["baseline", "candidate"]
ORDERS: Final[tuple[tuple[Name, ...], ...]] = (
    ("baseline", "candidate", "candidate", "baseline"),
    ("candidate", "baseline", "baseline", "candidate"),
)
LEAST: Final = 8  # blocks that give an interval
LONGEST: Final = 5  # budgets that few blocks may take, of calls that take long
BUSY: Final = 2  # budgets, where most blocks are disturbed
CLOCKS: Final = ("wall", "cpu")
SLACK_CPU: Final = 3e-4  # seconds of processor time that a block's turns of two honest children may differ by
SLACK_OF_A_CALL: Final = 3e-6  # seconds that each call may take beside what is claimed of it
LARGE: Final = 0.25  # of the claim: noise explains no such step


@dataclass(frozen=True, slots=True)
class Sample:
    """What an arm's turns of one block took, in seconds: each call by the arm's own word, and all of them together.

    `cpu` is `None` where a GPU does the work. `steps` are, by clock, what one call more takes: where one turn has more
    calls than the other, what is the same for both turns is no part of the difference, and no claim is needed for it.
    """

    claimed: tuple[float, ...]
    wall: float
    cpu: float | None
    steps: Mapping[str, float] = field(default_factory=dict)

    @property
    def least(self) -> float:
        """The quickest call."""
        return min(self.claimed)

    @property
    def mean(self) -> float:
        """Of all calls."""
        return statistics.fmean(self.claimed)


@dataclass(frozen=True, slots=True)
class Block:
    """One block: a sample of each arm, and whether something outside of both disturbed it."""

    baseline: Sample
    candidate: Sample
    disturbed: bool = False


@dataclass(frozen=True, slots=True)
class Paired:
    """What blocks say of two arms.

    `interval` is of the log-ratio baseline / candidate. `spread` is how much more the candidate's calls vary than the
    baseline's, as a share of its quickest; `uneven`, that means were compared because of it. `hidden` is how much
    longer one call more takes, by a clock of the grader, than the quickest is said to take, beyond the same of the
    baseline and as a share of the claim; `proven` is how much the candidate has hidden for certain. It is called faster
    only if it is so whatever it may have hidden. `rejected` blocks were disturbed; where hardly any was not, they are
    among the `blocks` all the same, and nothing is said of the speed.
    """

    speed: Speed
    interval: Interval | None
    blocks: tuple[Block, ...]
    rejected: int
    spread: Interval | None
    uneven: bool
    hidden: Interval | None
    proven: float
    seconds: float

    @property
    def unseen(self) -> float | None:
        """The largest share of the time it claims that the candidate could have hidden."""
        return None if self.hidden is None else max(self.hidden.high, 0.0)


def measure(
    take: Callable[[Sequence[Name]], Block],
    precision: Precision,
    *,
    budget: float,
    arms: int = 1,
    trusted: bool = False,
    chance: random.Random | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Paired:
    """Take blocks until the interval is as narrow as `precision` asks, or `budget` seconds are spent.

    `arms` is the number of comparisons that are made at once (Bonferroni); what is `trusted` hides nothing. Calls that
    take long may take up to `LONGEST` budgets, for the fewest blocks that give an interval at all.
    """
    chance = random.Random() if chance is None else chance
    error = stats.ERROR / arms
    begun = clock()
    kept: list[Block] = []
    disturbed: list[Block] = []
    while True:
        block = take(chance.choice(ORDERS))
        (disturbed if block.disturbed else kept).append(block)
        spent = clock() - begun
        if not block.disturbed and stats.due(len(kept), precision.fewest) and _narrow(kept, error, precision):
            break
        patience = LONGEST if len(kept) >= len(disturbed) else BUSY
        if spent > budget and (len(kept) >= precision.fewest or spent > patience * budget):
            break
    used = kept if len(kept) >= LEAST else [*kept, *disturbed]
    seen, spread, uneven = ratios(used, error, precision.dead_band)
    beyond = hidden(kept, error, alone=precision.alone)
    found = stats.widened(seen, precision.offset) if seen is not None and used is kept else None
    word = stats.speed(found, precision)
    if word == "faster" and not trusted and not _whatever_is_hidden(found, beyond, precision):
        word = "ambiguous"
    every = [*kept, *disturbed]
    return Paired(
        word,
        found,
        tuple(used),
        len(disturbed),
        spread,
        uneven,
        beyond,
        proven(every, error, precision.slack),
        clock() - begun,
    )


def _whatever_is_hidden(found: Interval | None, beyond: Interval | None, precision: Precision) -> bool:
    """Whether the candidate is faster even if it took longer by all that could be hidden."""
    if found is None or beyond is None:
        return False
    return found.low - math.log1p(max(beyond.high, 0.0)) > precision.dead_band


def _narrow(blocks: Sequence[Block], error: float, precision: Precision) -> bool:
    return stats.enough(ratios(blocks, error, precision.dead_band)[0], precision)


def ratios(blocks: Sequence[Block], error: float, band: float) -> tuple[Interval | None, Interval | None, bool]:
    """The interval of the log-ratio, that of how much more the candidate's calls spread, and if means were compared.

    The quickest call of each arm in a block is compared: what disturbs a call only adds to its time, and adds it to
    neighbours too (Chen and Revels, Robust benchmarking in noisy environments, 2016). That is fair only if the calls of
    both arms spread alike: a candidate whose mean lies farther above its quickest call than the baseline's does, by
    more than the share `band` in time and in proportion, is judged by means. (What disturbs is of one length for both,
    or in proportion to how long they take; either would seem uneven by the other measure.)
    """
    spread = stats.interval([min(_spreads(each)) for each in blocks], error)
    uneven = spread is not None and spread.low > band
    of: Callable[[Sample], float] = (lambda s: s.mean) if uneven else (lambda s: s.least)
    return stats.interval([stats.block([of(b.baseline)], [of(b.candidate)]) for b in blocks], error), spread, uneven


def _spreads(block: Block) -> tuple[float, float]:
    """How much more the candidate's calls spread, as a share of its quickest: in time, and in proportion."""
    ours, theirs, least = block.baseline, block.candidate, block.candidate.least
    above = theirs.mean - theirs.least
    return (above - (ours.mean - ours.least)) / least, above / least - (ours.mean / ours.least - 1.0)


def hidden(blocks: Sequence[Block], error: float, *, alone: bool = False) -> Interval | None:
    """How much longer a call takes than the quickest is said to take, candidate against baseline, as a share of that.

    By the clock that leaves less open. Of undisturbed blocks, in which both arms had turns of two lengths. `alone`: the
    candidate's own, which needs no belief in what is honest, where a call takes nothing beside what is claimed of it.
    Then what whole turns took beyond all claims and beyond the baseline's counts too, if it is more: who wastes time in
    short turns makes one call more seem to take less.
    """

    def more(block: Block, clock: str) -> float:
        if not alone:
            return _longer(block.candidate, clock) - _longer(block.baseline, clock)
        return max(_longer(block.candidate, clock) - 1.0, _beyond_the_baseline(block, clock, 0.0))

    known = [
        found
        for clock in CLOCKS
        if (found := stats.interval([more(b, clock) for b in blocks
                                     if clock in b.candidate.steps and clock in b.baseline.steps], error))
    ]  # fmt: skip
    return min(known, key=lambda each: each.high, default=None)


def _longer(sample: Sample, clock: str, slack: float = 0.0) -> float:
    return (sample.steps[clock] - slack) / sample.least


def proven(blocks: Sequence[Block], error: float, slack: float = stats.CPU.slack) -> float:
    """The least share of its claims that the candidate has hidden, for all that these blocks say; 0.0 if none.

    By what its turns took beyond all claims, more than the baseline's and by the clock more than the `slack` of honest
    ones; and, if it is a large share, by what one call more takes. Where a block was disturbed an arm claims time in
    which it waited for a CPU, which must not count against the other: there only processor time is asked, against the
    most that the baseline ever had.
    """
    calm = [each for each in blocks if not each.disturbed]
    counted = all(each.baseline.cpu is not None and each.candidate.cpu is not None for each in blocks)
    slacks = {"wall": slack, "cpu": SLACK_CPU} if counted else {"wall": slack}
    least = [
        stats.interval([_beyond_the_baseline(b, clock, allowed) for b in calm], error / 2)
        for clock, allowed in slacks.items()
    ]
    if counted:
        most = max((_beyond(each.baseline, "cpu") for each in blocks), default=0.0)
        shares = [
            (_beyond(each.candidate, "cpu") - max(most, 0.0) - SLACK_CPU) / sum(each.candidate.claimed)
            for each in blocks
        ]
        least.append(stats.interval(shares, error))
    stepped = [b for b in calm if "cpu" in b.candidate.steps and "cpu" in b.baseline.steps]
    steps = [_longer(b.candidate, "cpu", SLACK_OF_A_CALL) - max(_longer(b.baseline, "cpu"), 1.0) for b in stepped]
    large = stats.interval(steps, error)
    found = [each.low for each in least if each is not None]
    return max([0.0, *found, *([large.low] if large is not None and large.low > LARGE else [])])


def _beyond_the_baseline(block: Block, clock: str, slack: float) -> float:
    beyond = _beyond(block.candidate, clock) - _beyond(block.baseline, clock) - slack
    return beyond / sum(block.candidate.claimed)


def _beyond(sample: Sample, clock: str) -> float:
    return float(getattr(sample, clock)) - sum(sample.claimed)
