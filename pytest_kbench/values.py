"""How arguments are filled, declared: distributions for inputs and parameters. Data only; `oracle.inputs` draws.

Numbers that depend on dimensions are text, as everywhere in a task: `integers(0, "classes")`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from .expression import Expression

MASKS = ("causal", "padding", "random", "empty-row", "full")


class _Declared:
    """Printed as it is declared: `normal(1.0, 0.1)`."""

    __slots__ = ()

    def __repr__(self) -> str:
        word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower()
        values = [getattr(self, each.name) for each in fields(self)]  # type: ignore[arg-type]  # a dataclass each
        return f"{word}({', '.join(str(each) if isinstance(each, float) else repr(each) for each in values)})"


@dataclass(frozen=True, slots=True, repr=False)
class Normal(_Declared):
    """Independent normal values."""

    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True, slots=True, repr=False)
class Uniform(_Declared):
    """Independent values in [low, high)."""

    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True, slots=True, repr=False)
class Constant(_Declared):
    """The same value everywhere. A neutral constant (weight one, bias zero) hides bugs: prefer a spread."""

    value: float


@dataclass(frozen=True, slots=True, repr=False)
class Integers(_Declared):
    """Integers in [low, high), as in Python; `also` are further values that occur now and then (an ignore index)."""

    low: int | Expression
    high: int | Expression
    also: tuple[int, ...] = ()

    def __repr__(self) -> str:
        ends = ", ".join(repr(str(end) if isinstance(end, Expression) else end) for end in (self.low, self.high))
        return f"integers({ends}{f', also={self.also}' if self.also else ''})"


@dataclass(frozen=True, slots=True, repr=False)
class Kaiming(_Declared):
    """Kaiming-uniform for layers followed by a ReLU: bound sqrt(6 / fan_in) (He et al., 2015)."""


@dataclass(frozen=True, slots=True, repr=False)
class Xavier(_Declared):
    """Xavier-uniform: bound sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""


@dataclass(frozen=True, slots=True, repr=False)
class UniformFanIn(_Declared):
    """Uniform within 1 / sqrt(fan_in) of another argument, which is how torch initialises biases."""

    of: str


@dataclass(frozen=True, slots=True, repr=False)
class Masks(_Declared):
    """Boolean attention masks, True where attention is allowed; each kind is a value plan of its own."""

    kinds: tuple[str, ...]

    def __repr__(self) -> str:
        return f"masks({', '.join(map(repr, self.kinds))})"


Distribution = Normal | Uniform | Constant | Integers | Kaiming | Xavier | UniformFanIn | Masks


def normal(mean: float = 0.0, std: float = 1.0) -> Normal:
    """Normal values of this mean and standard deviation."""
    return Normal(float(mean), float(std))


def uniform(low: float = 0.0, high: float = 1.0) -> Uniform:
    """Uniform values in [low, high)."""
    return Uniform(float(low), float(high))


def constant(value: float) -> Constant:
    """One value everywhere."""
    return Constant(float(value))


def integers(low: int | str, high: int | str, *, also: int | tuple[int, ...] = ()) -> Integers:
    """Integers from `low` up to but excluding `high`; either may be an expression over dimensions.

    `also=-100` lets that value occur as well: an ignored class of a cross entropy.
    """
    low_, high_ = (Expression(end) if isinstance(end, str) else end for end in (low, high))
    return Integers(low_, high_, (also,) if isinstance(also, int) else tuple(also))


def kaiming() -> Kaiming:
    """Kaiming-uniform, fan-in from the parameter's own shape (dimension 0 is the output)."""
    return Kaiming()


def xavier() -> Xavier:
    """Xavier-uniform, fans from the parameter's own shape."""
    return Xavier()


def uniform_fan_in(of: str) -> UniformFanIn:
    """Uniform within 1 / sqrt(fan_in of the argument `of`)."""
    return UniformFanIn(of)


def masks(*kinds: str) -> Masks:
    """Attention masks of these kinds: `causal`, `padding`, `random`, `empty-row` (one row allows nothing), `full`."""
    return Masks(kinds)
