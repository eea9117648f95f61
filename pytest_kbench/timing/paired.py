"""Two arms in blocks of turns, until the interval of their ratio is narrow or the time is spent.

The loop knows no device: `take` makes one block. So simulations test it with a clock of their own.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from . import stats
from .stats import Interval, Precision, Speed

Name = Literal["baseline", "candidate"]
ORDERS: Final[tuple[tuple[Name, ...], ...]] = (
    ("baseline", "candidate", "candidate", "baseline"),
    ("candidate", "baseline", "baseline", "candidate"),
)
FEWEST: Final = stats.FEWEST
LEAST: Final = 8  # blocks that give an interval
LONGEST: Final = 5  # budgets that few blocks may take, of calls that take long
BUSY: Final = 2  # budgets, where most blocks are disturbed
CLOCKS: Final = ("wall", "cpu")
SLACK: Final = 1e-4  # seconds by which a block's turns of two honest children may differ beside their calls


@dataclass(frozen=True, slots=True)
class Sample:
    """What an arm's turns of one block took, in seconds: each call by the arm's own word, and all of them together."""

    claimed: tuple[float, ...]
    wall: float
    cpu: float

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
    baseline's, as a share of its quickest. `hidden` is what the clocks of the grader saw of the candidate beyond its
    claims and the baseline's, as a share of the claims; `proven` is how much of that it has hidden for certain.
    `rejected` blocks were disturbed; where hardly any was not, they are among the `blocks` all the same, and nothing is
    said of the speed.
    """

    speed: Speed
    interval: Interval | None
    blocks: tuple[Block, ...]
    rejected: int
    spread: Interval | None
    hidden: Interval | None
    proven: float
    seconds: float

    @property
    def unseen(self) -> float | None:
        """The largest share of its time that the candidate could have hidden: in all calls, or in the quickest."""
        if self.hidden is None or self.spread is None:
            return None
        return max(self.hidden.high, 0.0) + max(self.spread.high, 0.0)


def measure(
    take: Callable[[Sequence[Name]], Block],
    precision: Precision,
    *,
    budget: float,
    arms: int = 1,
    chance: random.Random | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Paired:
    """Take blocks until the interval is as narrow as `precision` asks, or `budget` seconds are spent.

    `arms` is the number of comparisons that are made at once (Bonferroni). Calls that take long may take up to
    `LONGEST` budgets, for the fewest blocks that give an interval at all.
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
        if not block.disturbed and stats.due(len(kept)) and _narrow(kept, error, precision):
            break
        patience = LONGEST if len(kept) >= len(disturbed) else BUSY
        if spent > budget and (len(kept) >= FEWEST or spent > patience * budget):
            break
    used = kept if len(kept) >= LEAST else [*kept, *disturbed]
    found, spread = ratios(used, error, precision.dead_band)
    word = stats.speed(found, precision) if used is kept else "ambiguous"
    every = [*kept, *disturbed]
    return Paired(
        word, found, tuple(used), len(disturbed), spread, hidden(kept, error), proven(every, error), clock() - begun
    )


def _narrow(blocks: Sequence[Block], error: float, precision: Precision) -> bool:
    return stats.enough(ratios(blocks, error, precision.dead_band)[0], precision)


def ratios(blocks: Sequence[Block], error: float, band: float) -> tuple[Interval | None, Interval | None]:
    """The interval of the log-ratio, and that of how much more the candidate's calls spread than the baseline's.

    The quickest call of each arm in a block is compared: what disturbs a call only adds to its time, and adds it to
    neighbours too (Chen and Revels, Robust benchmarking in noisy environments, 2016). That is fair only if the calls of
    both arms spread alike: a candidate whose mean lies farther above its quickest call than the baseline's does, by
    more than the share `band` in time and in proportion, is judged by means. (What disturbs is of one length for both,
    or in proportion to how long they take; either would seem uneven by the other measure.)
    """
    spread = stats.interval([min(_spreads(each)) for each in blocks], error)
    uneven = spread is not None and spread.low > band
    of: Callable[[Sample], float] = (lambda s: s.mean) if uneven else (lambda s: s.least)
    return stats.interval([stats.block([of(b.baseline)], [of(b.candidate)]) for b in blocks], error), spread


def _spreads(block: Block) -> tuple[float, float]:
    """How much more the candidate's calls spread, as a share of its quickest: in time, and in proportion."""
    ours, theirs, least = block.baseline, block.candidate, block.candidate.least
    above = theirs.mean - theirs.least
    return (above - (ours.mean - ours.least)) / least, above / least - (ours.mean / ours.least - 1.0)


def hidden(blocks: Sequence[Block], error: float) -> Interval | None:
    """What both clocks of the grader saw beyond the claims, candidate against baseline, as a share of its claims.

    Of undisturbed blocks alone: an arm that has to wait for a CPU claims time in which it did nothing.
    """
    known = [found for clock in CLOCKS if (found := _beyond_the_baseline(blocks, clock, error / len(CLOCKS)))]
    if not known:
        return None
    # What might go unseen is what the better clock leaves open.
    return min(known, key=lambda each: each.high)


def proven(blocks: Sequence[Block], error: float) -> float:
    """The least share of its claims that the candidate has hidden, for all that these blocks say; 0.0 if none.

    Where nothing was disturbed, by either clock, beyond what turns of honest children differ by. Else an arm that waits
    for a CPU claims time in which it did nothing, which must not count against the other: so only by processor time,
    and against the most that the baseline ever had.
    """
    calm = [each for each in blocks if not each.disturbed]
    found = [_beyond_the_baseline(calm, clock, error / len(CLOCKS), SLACK) for clock in CLOCKS]
    most = max((_beyond(each.baseline, "cpu") for each in blocks), default=0.0)
    shares = [
        (_beyond(each.candidate, "cpu") - max(most, 0.0) - SLACK) / sum(each.candidate.claimed) for each in blocks
    ]
    found.append(stats.interval(shares, error))
    return max([0.0, *(each.low for each in found if each is not None)])


def _beyond_the_baseline(blocks: Sequence[Block], clock: str, error: float, slack: float = 0.0) -> Interval | None:
    return stats.interval(
        [(_beyond(b.candidate, clock) - _beyond(b.baseline, clock) - slack) / sum(b.candidate.claimed) for b in blocks],
        error,
    )


def _beyond(sample: Sample, clock: str) -> float:
    return float(getattr(sample, clock)) - sum(sample.claimed)
