"""How a candidate's speedup goes with a size, and where it stops winning: read from the times of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ..candidate import escaped
from ..record import BEST, SWEPT, Record, Timing


@dataclass(frozen=True, slots=True)
class Curve:
    """One candidate over sizes of one dimension, ascending; `None` where a size could not be timed."""

    task: str
    candidate: str
    dimension: str
    points: tuple[tuple[int, Timing | None], ...]

    @property
    def wins(self) -> tuple[tuple[int, int], ...]:
        """Ranges of sizes in a row at which it is faster than the best baseline."""
        runs = groupby(self.points, key=lambda point: point[1] is not None and point[1].speed == "faster")
        sizes = [[size for size, _ in points] for won, points in runs if won]
        return tuple((each[0], each[-1]) for each in sizes)


def curves(records: Sequence[Record]) -> tuple[Curve, ...]:
    """The curves of all candidates that were swept, sorted by task and name."""
    found: dict[tuple[str, str, str], list[tuple[int, Timing | None]]] = {}
    for record in records:
        dimension, _, size = record.facts.get(SWEPT, "").partition("=")
        if dimension:
            points = found.setdefault((record.task, record.candidate, dimension), [])
            points.append((int(size), record.against(BEST)))
    return tuple(Curve(*key, tuple(sorted(found[key], key=lambda each: each[0]))) for key in sorted(found))


def lines(found: Sequence[Curve]) -> list[str]:
    """Two lines per curve: where it wins, and every size with its speedup."""
    told = []
    for each in found:
        told.append(f"{each.task} {escaped(each.candidate)} over {each.dimension}: {_wins(each)}")
        told.append("  " + "  ".join(f"{size}: {_speedup(timing)}" for size, timing in each.points))
    return told


def _wins(curve: Curve) -> str:
    ranges = curve.wins
    if not ranges:
        return "wins nowhere"
    if ranges == ((curve.points[0][0], curve.points[-1][0]),):
        return "wins everywhere"
    return f"wins {', '.join(f'from {low} to {high}' if low < high else f'at {low}' for low, high in ranges)}"


def _speedup(timing: Timing | None) -> str:
    if timing is None:
        return "-"
    if timing.speedup is None or timing.speed == "ambiguous":
        return "?"
    return "same" if timing.speed == "same" else f"{timing.speedup:.2f}x"
