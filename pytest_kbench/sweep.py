"""Sweeps: sizes of a dimension, outside of the named shapes, at which candidates are timed too."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

Steps = Literal["log", "linear"]
POINTS: Final = 8  # of a linear sweep, where nobody says how many
MOST_POINTS: Final = 64
MOST_SIZE: Final = 1 << 40
FORM: Final = "tokens=1..4096:log"
_SWEEP: Final = re.compile(
    r"(?P<dimension>[A-Za-z_]\w*)=(?P<low>\d{1,12})\.\.(?P<high>\d{1,12})(:(?P<steps>log|linear))?(:(?P<count>\d{1,3}))?"
)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Sizes of one dimension from `low` to `high`, both among them; `count` of them, or by powers of two (`log`)."""

    dimension: str
    low: int
    high: int
    steps: Steps = "log"
    count: int | None = None

    def __str__(self) -> str:
        count = "" if self.count is None else f":{self.count}"
        return f"{self.dimension}={self.low}..{self.high}:{self.steps}{count}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes, ascending; fewer where steps of less than one coincide."""
        if self.steps == "log" and self.count is None:
            powers = [1 << power for power in range(self.low.bit_length(), self.high.bit_length())]
            return tuple(sorted({self.low, *(each for each in powers if each < self.high), self.high}))
        count = POINTS if self.count is None else self.count
        parts = [step / max(count - 1, 1) for step in range(count)]
        if self.steps == "linear":
            return tuple(sorted({round(self.low + (self.high - self.low) * part) for part in parts}))
        first, last = math.log(self.low), math.log(self.high)
        return tuple(sorted({round(math.exp(first + (last - first) * part)) for part in parts}))


def parsed(text: str) -> tuple[Sweep, ...]:
    """The sweeps of a text such as `tokens=1..4096:log,hidden=64..8192:linear:5`. Raises `ValueError`."""
    found = tuple(_one(each.strip()) for each in text.split(","))
    names = [each.dimension for each in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice} is there twice")
    return found


def _one(text: str) -> Sweep:
    match = _SWEEP.fullmatch(text)
    if match is None:
        raise ValueError(f"write a dimension and its sizes, as in {FORM} or {FORM.replace('log', 'linear')}:5")
    low, high = int(match["low"]), int(match["high"])
    steps: Steps = "linear" if match["steps"] == "linear" else "log"
    count = None if match["count"] is None else int(match["count"])
    if not low <= high <= MOST_SIZE:
        raise ValueError(f"{text}: sizes go up, to {MOST_SIZE} at most")
    if steps == "log" and not low:
        raise ValueError(f"{text}: there is no logarithm of 0; begin with 1, or write linear")
    if count is not None and not 2 <= count <= MOST_POINTS:
        raise ValueError(f"{text}: 2 to {MOST_POINTS} sizes are needed")
    return Sweep(match["dimension"], low, high, steps, count)
