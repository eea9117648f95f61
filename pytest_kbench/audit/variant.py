"""What a wrong variant of one operator is, and the words in which it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor, fx

from .graph import Change

TILE: Final = 32  # a tail is what lies beyond a multiple of it
BLOCKS: Final = 64  # partial sums at most, where they are accumulated in half precision

SHAPES = "Name a shape, or widen fuzz=, so that {}"
VALUES = "Let inputs take values, by their plans or values=, for which {}"
STATES = "Give the parameter an initial state for which {}"


@dataclass(frozen=True, slots=True)
class Variant:
    """A wrong operator: its name, the expression that stands in its place, what it gives, and how to notice it.

    `coarse` is one that is wrong by a rounding to a half type, which honest kernels of half types may make.
    """

    name: str
    after: str
    change: Change
    fix: str
    coarse: bool = False


def whole_tiles(size: int) -> int:
    """How many of so many indices lie in whole tiles; all of them where there is no whole one."""
    return size // TILE * TILE or size


def without_tail(values: Tensor, axis: int) -> Tensor:
    """Zeros in place of what lies beyond a multiple of the tile."""
    left = whole_tiles(values.shape[axis])
    if left == values.shape[axis]:
        return values
    kept = values.clone()
    kept.narrow(axis, left, values.shape[axis] - left).zero_()
    return kept


def first(result: Any) -> Any:
    """A result, or the first of several."""
    return result[0] if isinstance(result, (tuple, list)) else result


def call(node: fx.Node, op: str, instead: Mapping[int, Any] | None = None) -> str:
    """A node's call as text, with another operator or other arguments."""
    args = [(instead or {}).get(index, each) for index, each in enumerate(node.args)]
    return f"{op}({', '.join(map(word, args))})"


def word(value: Any) -> str:
    """An argument as text."""
    if isinstance(value, fx.Node):
        return value.name
    return f"{value:.6g}" if isinstance(value, float) else str(value)
