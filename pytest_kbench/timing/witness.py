"""Proof of work: what timed calls gave, seen after each turn, and judged when no clock runs any more.

Every output of every timed call is looked at in a few random places, and must be there what the other arm gave for the
same inputs. Some calls, drawn by lot, are kept whole, to be judged like any other call.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

PLACES: Final = 8  # per output that is looked at
LENGTH: Final = 64  # elements at each
KEPT: Final = 5  # calls that are kept whole
MOST_KEPT: Final = 256 << 20  # bytes of these
STRAY: Final = 0.01  # of the elements looked at in one call that may differ: roundings decide a branch now and then
LOOSE: Final = 8.0  # times the widest bound of the calls that are kept
COARSE: Final = {torch.float64: 1e-9, torch.float32: 2e-4}  # of the largest element seen
COARSE_HALF: Final = 0.02

Places = tuple[tuple[tuple[int, int], ...], ...]  # per output: where to begin, and how many, in elements


def places(counts: Sequence[int], chance: random.Random) -> Places:
    """Where to look at outputs of so many elements; small ones are seen whole."""
    return tuple(
        ((0, count),) if count <= PLACES * LENGTH
        else tuple((chance.randrange(count - LENGTH + 1), LENGTH) for _ in range(PLACES))
        for count in counts
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """What one output of one call held where it was looked at; `None` where nothing could be read."""

    call: int
    output: int
    baseline: torch.Tensor | None
    candidate: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Wrong:
    """An output of a timed call that is not the baseline's: how many elements of all that were looked at."""

    call: int
    output: int
    wrong: int
    looked_at: int


def differing(ours: torch.Tensor, theirs: torch.Tensor, allowed: float) -> torch.Tensor:
    """Per row, how many elements the candidate has wrong, beyond any doubt."""
    if not ours.is_floating_point():
        return (ours != theirs).sum(1)
    working = torch.float64 if ours.dtype == torch.float64 or ours.device.type == "cpu" else torch.float32
    exact, given = ours.to(working), theirs.to(working)
    finite = exact.isfinite()
    largest = exact.abs().where(finite, 0.0).amax(1, keepdim=True) if ours.shape[1] else exact.new_zeros(len(ours), 1)
    slack = (COARSE.get(ours.dtype, COARSE_HALF) * largest).clamp(min=LOOSE * allowed)
    return (~((exact - given).abs() <= slack) & finite).sum(1)


def alike(ours: torch.Tensor, theirs: torch.Tensor, allowed: float) -> bool:
    """Whether no element of any row is wrong: `differing` in fewer passes over memory."""
    if not ours.is_floating_point() or not ours.numel():
        return torch.equal(ours, theirs)
    largest = torch.linalg.vector_norm(ours, math.inf, 1)
    slack = (COARSE.get(ours.dtype, COARSE_HALF) * largest.double()).clamp(min=LOOSE * allowed)
    near = torch.linalg.vector_norm(ours - theirs, math.inf, 1) <= slack
    return bool((near & largest.isfinite()).all())  # next to an infinity everything would be near


def too_many(counts: torch.Tensor, size: int) -> torch.Tensor:
    """Whether so many wrong elements in rows of this size are more than roundings explain that decide a branch."""
    return counts > math.floor(STRAY * size)


def first_wrong(seen: Sequence[Seen], allowed: Sequence[float]) -> Wrong | None:
    """The first output that holds something else than the baseline's, if there is one. `allowed` is per output."""
    for each in seen:
        ours, theirs = each.baseline, each.candidate
        if ours is None or ours.numel() == 0:
            continue
        size = ours.numel()
        if theirs is None or theirs.shape != ours.shape:
            return Wrong(each.call, each.output, size, size)
        counts = differing(ours.view(1, -1), theirs.view(1, -1), allowed[each.output])
        if bool(too_many(counts, size)):
            return Wrong(each.call, each.output, int(counts), size)
    return None


class Lot:
    """Draws which calls are kept whole: each of all that are offered with the same chance (Vitter's algorithm R)."""

    def __init__(self, chance: random.Random, size: int = KEPT) -> None:
        self._chance, self._size, self._offered = chance, size, 0

    def place(self) -> int | None:
        """Offer one more: the place that it takes, if it wins."""
        self._offered += 1
        if self._offered <= self._size:
            return self._offered - 1
        place = self._chance.randrange(self._offered)
        return place if place < self._size else None
