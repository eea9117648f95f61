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
COARSE: Final = {torch.float64: 1e-9, torch.float32: 2e-4}  # of the largest element seen; half types: 2 %

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


def differing(seen: Seen, allowed: float) -> int:
    """How many elements the candidate has wrong, beyond any doubt: all of them where there was nothing to be read."""
    ours, theirs = seen.baseline, seen.candidate
    if ours is None or ours.numel() == 0:
        return 0
    if theirs is None or theirs.shape != ours.shape:
        return ours.numel()
    if not ours.is_floating_point():
        return int((ours != theirs).sum())
    dtype, ours, theirs = ours.dtype, ours.double(), theirs.double()
    finite = ours.isfinite()
    largest = float(ours[finite].abs().max()) if bool(finite.any()) else 0.0
    slack = max(LOOSE * allowed, COARSE.get(dtype, 0.02) * largest)
    wrong = (ours - theirs).abs()[finite]
    return int((~(wrong <= slack)).sum())


def first_wrong(seen: Sequence[Seen], allowed: Sequence[float]) -> Seen | None:
    """The first output that holds something else than the baseline's, if there is one. `allowed` is per output."""
    for each in seen:
        wrong = differing(each, allowed[each.output])
        if each.baseline is not None and wrong > math.floor(STRAY * each.baseline.numel()):
            return each
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
