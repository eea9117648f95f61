"""What a reference takes, declared: a `Tensor`, `Param`, `Scalar` or `Dim`, `Optional` around what may be absent."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from .values import MASKS, Distribution, Integers, Masks, Normal, UniformFanIn, normal, uniform

NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")
FLOATS = ("float64", "float32", "float16", "bfloat16")
DTYPES = (*FLOATS, "int64", "int32", "int16", "int8", "uint8", "bool")
LAYOUTS = ("dense", "transposed", "sliced", "offset", "expanded", "channels_last")
NO_STATE = "default"


class TaskError(ValueError):
    """A task that cannot be graded: which field, what is wrong with it, and how to mend it."""

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}. {fix}")
        self.field, self.problem, self.fix = field, problem, fix


class _Declared:
    """Printed as it is declared: name and shape, then what differs from the default."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = []
        for each in fields(self):  # type: ignore[arg-type]  # a dataclass each
            value = getattr(self, each.name)
            if each.name in ("name", "shape", "argument"):
                shown.append(repr(value))
            elif value != each.default and value != getattr(self, "name", None):
                shown.append(f"{each.name}={written(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, slots=True, repr=False)
class Tensor(_Declared):
    """An input, new in every call. `shape` is one expression per dimension: `"b kv*group sq d"`.

    Without `dtype` it follows the case's dtype. Without `values` it takes every value plan; with them, these alone.
    """

    name: str
    shape: str
    dtype: str | None = None
    values: Distribution | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Param(_Declared):
    """A parameter, filled from named initial states that make it matter: `init={"trained": ..., "spread": ...}`.

    `present` is a condition over dimensions; where it is false the argument is `None`.
    """

    name: str
    shape: str
    init: Mapping[str, Distribution] | Distribution = field(default_factory=lambda: normal())
    dtype: str | None = None
    present: str | None = None

    def __post_init__(self) -> None:
        states = self.init if isinstance(self.init, Mapping) else {NO_STATE: self.init}
        object.__setattr__(self, "init", MappingProxyType(dict(states)))

    @property
    def states(self) -> Mapping[str, Distribution]:
        """What fills it, by state."""
        assert isinstance(self.init, Mapping)
        return self.init

    def distribution(self, state: str | None) -> Distribution:
        """What fills it in this state; a parameter that does not name the state keeps its first one."""
        return self.states.get(state or "", next(iter(self.states.values())))


@dataclass(frozen=True, slots=True, init=False)
class Scalar:
    """A number, flag or word that no shape depends on: `Scalar("eps", 1e-6, 1e-3)` is a choice of values."""

    name: str
    choices: tuple[float | int | bool | str | None, ...]

    def __init__(self, name: str, *choices: float | int | bool | str | None) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "choices", choices)

    def __repr__(self) -> str:
        return f"Scalar({', '.join(map(repr, (self.name, *self.choices)))})"


@dataclass(frozen=True, slots=True, repr=False)
class Dim(_Declared):
    """A dimension that the reference takes as an argument: `Dim("stride")`, `Dim("groups", "cin // 4")`."""

    name: str
    value: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", self.value or self.name)


@dataclass(frozen=True, slots=True, repr=False)
class Optional(_Declared):
    """An argument that may be absent: graded with it and without; absent is `None` in every binding."""

    argument: Tensor | Param

    @property
    def name(self) -> str:
        """The name of the argument inside."""
        return self.argument.name


Argument = Tensor | Param | Scalar | Dim | Optional


def batch_norm(prefix: str, channels: str, *, present: str | None = None) -> tuple[Param, Param, Param, Param]:
    """The four parameters of an inference batch norm, in torch's order of mean, variance, weight, bias.

    Variances are positive; statistics and affine parameters are far from neutral, so that skipping the norm shows.
    """
    init: dict[str, tuple[Distribution, Distribution]] = {
        "mean": (normal(0.5, 1.0), uniform(-3.0, 3.0)),
        "var": (uniform(0.5, 2.0), uniform(0.05, 9.0)),
        "weight": (normal(1.0, 0.3), uniform(-2.0, 2.0)),
        "bias": (normal(0.2, 0.5), uniform(-2.0, 2.0)),
    }
    mean, var, weight, bias = (
        Param(f"{prefix}_{part}", channels, {"trained": trained, "spread": spread}, present=present)
        for part, (trained, spread) in init.items()
    )
    return mean, var, weight, bias


def flatten(args: Iterable[Argument | Iterable[Argument]]) -> tuple[Argument, ...]:
    """The declarations in order, helpers such as `batch_norm` unpacked. Raises `TaskError`."""
    flat: list[Argument] = []
    for each in args:
        if isinstance(each, Optional) and not isinstance(each.argument, (Tensor, Param)):
            raise TaskError("args", f"{each!r} wraps no tensor", "Write Optional(Tensor(...)) or Optional(Param(...))")
        if isinstance(each, (Tensor, Param, Scalar, Dim, Optional)):
            flat.append(each)
        elif isinstance(each, Iterable) and not isinstance(each, str):
            flat.extend(flatten(each))
        else:
            raise TaskError("args", f"{each!r} declares no argument", "Use Tensor, Param, Scalar, Dim or Optional")
    return tuple(flat)


def check_tensor(tensor: Tensor | Param, names: Container[str]) -> None:
    """Raise `TaskError` unless dtype and distributions fit; `names` are the task's tensor arguments."""
    where = f"{type(tensor).__name__}({tensor.name!r})"
    if tensor.dtype is not None and tensor.dtype not in DTYPES:
        raise TaskError(f"{where}.dtype", f"{tensor.dtype!r} is unknown", f"Choose from: {', '.join(DTYPES)}")
    distributions: tuple[Distribution, ...]
    if isinstance(tensor, Param):
        distributions, key = tuple(tensor.states.values()), "init"
        if not distributions:
            raise TaskError(f"{where}.init", "names no state", 'Write init={"trained": normal(1.0, 0.1)}')
        for state in tensor.states:
            check_name(f"{where}.init", state)
    else:
        distributions, key = (tensor.values,) if tensor.values is not None else (), "values"
    for each in distributions:
        if not isinstance(each, Distribution):
            raise TaskError(
                f"{where}.{key}", f"{each!r} is no distribution", "Use normal(), uniform(), integers(), ..."
            )
        if isinstance(each, UniformFanIn) and each.of not in names:
            raise TaskError(
                f"{where}.{key}", f"{each.of!r} is no tensor argument", "Name the weight whose fan-in counts"
            )
        if isinstance(each, Masks) and (tensor.dtype != "bool" or len(tensor.shape.split()) < 2):
            raise TaskError(f"{where}.{key}", "masks are boolean, of rows and columns", 'Write "b sq sk", dtype="bool"')
        if isinstance(each, Masks) and (not each.kinds or set(each.kinds) - set(MASKS)):
            raise TaskError(f"{where}.{key}", f"{each!r} is unknown", f"Choose from: {', '.join(MASKS)}")
        if (
            isinstance(each, Integers)
            and isinstance(each.low, int)
            and isinstance(each.high, int)
            and each.low >= each.high
        ):
            raise TaskError(f"{where}.{key}", f"{each!r} has no values", "The upper end is excluded: integers(0, 10)")
    exact = (tensor.dtype or "float32") not in FLOATS
    if exact and (not distributions or any(isinstance(each, Normal) for each in distributions)):
        raise TaskError(
            f"{where}.{key}", f"{tensor.dtype} needs values of its own", "Use integers(low, high) or masks(...)"
        )
    if not exact and any(isinstance(each, (Integers, Masks)) for each in distributions):
        raise TaskError(
            f"{where}.{key}", "integers and masks fill no floating-point tensor", 'Add dtype="int64" or dtype="bool"'
        )


def check_name(field: str, name: str) -> None:
    """Raise `TaskError` unless the name may be part of a test id."""
    if not isinstance(name, str) or not NAME.match(name):
        raise TaskError(field, f"{name!r} cannot be part of a test id", "Use letters, digits, _ . -")


def written(value: Any) -> str:
    """A field's value as code."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, tuple):
        return repr(list(value))
    return getattr(value, "__name__", repr(value))
