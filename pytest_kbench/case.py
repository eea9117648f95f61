"""A case: one or more fully determined calls, and the one line of text that says them.

    dims(tokens=3,hidden=65) dtype(bfloat16) state(spread) scalars(eps=1e-06) layout(x=sliced) values(x=wide) seed(1f)

Calls are joined by `;`. What is left out is the default: dense, the `normal` plan, every optional argument there.
`only(tokens=2)` makes of such a call the one for index 2 of that dimension alone, with the same values.
`grad(x,weight)` asks for the gradients of these arguments too; layout and values of `cotangent` are those of what goes
into the backward, `backward(twice)`, `backward(changed)` and `backward(nested)` are ways of calling it.
The text round-trips: `Case.parse(str(case)) == case`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from .argument import DTYPES, LAYOUTS, NAME

PLANS = (
    *("normal", "wide", "shifted", "scaled", "constant", "binary", "spike", "ties"),
    *("sorted", "levels", "subnormal", "zeros", "tiny"),  # drawn by fuzzing alone
    *("nan", "inf", "huge", "extreme"),  # only where the contract lets them occur; the last by fuzzing alone
)
DTYPE_NAMES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}

COTANGENT = "cotangent"  # what layouts and value plans call the tensors that a backward starts from
SUMMED = "summed"  # a layout of cotangents alone: every stride is 0, as y.sum().backward() makes them
NESTED = "nested"  # a way of calling a backward: another call comes between forward and backward
BACKWARDS = ("twice", "changed", NESTED)

Value = float | int | bool | str | None
Pairs = tuple[tuple[str, str], ...]


class CaseError(ValueError):
    """A text that is no case; the message says which part, and what was expected."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `layouts` and `plans` name only arguments that differ from the default; `seed` has 64 bits.

    `only` takes one index (from 0) of a dimension out of the call: inputs are drawn for `dims`, and then narrowed.
    `grad` names the arguments whose gradients are asked for. `backward` is how: `twice`, each time after a forward, to
    let gradients accumulate; `changed`, once more per argument and once for the outputs, after these were changed in
    place: refused, or without effect; `nested`, after another forward and its backward, of another shape.
    Raises `CaseError` for an index that is not there.
    """

    dims: tuple[tuple[str, int], ...]
    dtype: str
    state: str | None = None
    scalars: tuple[tuple[str, Value], ...] = ()
    absent: tuple[str, ...] = ()
    layouts: Pairs = ()
    plans: Pairs = ()
    seed: int = 0
    only: tuple[tuple[str, int], ...] = ()
    grad: tuple[str, ...] = ()
    backward: str | None = None

    def __post_init__(self) -> None:
        sizes = dict(self.dims)
        for name, index in self.only:
            if name not in sizes:
                raise CaseError(f"only({name}={index}): choose from {', '.join(sizes)}")
            if not 0 <= index < sizes[name]:
                raise CaseError(f"only({name}={index}): {name} has {sizes[name]} indices, counted from 0")

    def __str__(self) -> str:
        parts = [
            ("dims", ",".join(f"{name}={size}" for name, size in self.dims)),
            ("only", ",".join(f"{name}={index}" for name, index in self.only)),
            ("dtype", self.dtype),
            ("state", self.state or ""),
            ("scalars", ",".join(f"{name}={_written(value)}" for name, value in self.scalars)),
            ("absent", ",".join(self.absent)),
            ("layout", ",".join(f"{name}={layout}" for name, layout in self.layouts)),
            ("values", ",".join(f"{name}={plan}" for name, plan in self.plans)),
            ("grad", ",".join(self.grad)),
            ("backward", self.backward or ""),
            ("seed", f"{self.seed:x}"),
        ]
        return " ".join(f"{key}({text})" for key, text in parts if text)

    @classmethod
    def parse(cls, text: str) -> Call:
        """Read one call; raises `CaseError`."""
        parts = _parts(text)
        call = cls(
            dims=tuple((name, _size("dims", name, size)) for name, size in _pairs(parts.get("dims", ""))),
            dtype=parts.get("dtype", "float32"),
            state=parts.get("state") or None,
            scalars=tuple((name, _read(value)) for name, value in _pairs(parts.get("scalars", ""))),
            absent=tuple(name for name in parts.get("absent", "").split(",") if name),
            layouts=tuple(_pairs(parts.get("layout", ""))),
            plans=tuple(_pairs(parts.get("values", ""))),
            seed=_seed(parts.get("seed", "0")),
            only=tuple((name, _size("only", name, index)) for name, index in _pairs(parts.get("only", ""))),
            grad=tuple(name.strip() for name in parts.get("grad", "").split(",") if name.strip()),
            backward=parts.get("backward") or None,
        )
        call._check()
        return call

    def _check(self) -> None:
        if self.dtype not in DTYPES:
            raise CaseError(f"dtype({self.dtype}): choose from {', '.join(DTYPES)}")
        for name, layout in self.layouts:
            known = (*LAYOUTS, SUMMED) if name == COTANGENT else LAYOUTS
            if layout not in known:
                raise CaseError(f"layout({name}={layout}): choose from {', '.join(known)}")
        if self.backward is not None and self.backward not in BACKWARDS:
            raise CaseError(f"backward({self.backward}): choose from {', '.join(BACKWARDS)}")
        if len(set(self.grad)) < len(self.grad):
            raise CaseError(
                f"grad({','.join(self.grad)}): one of them is there twice; second derivatives are not graded"
            )
        if not self.grad and (self.backward or COTANGENT in dict((*self.layouts, *self.plans))):
            raise CaseError(f"backward and {COTANGENT} say nothing without grad(...)")


@dataclass(frozen=True, slots=True)
class Case:
    """One or more calls, made in this order in one child."""

    calls: tuple[Call, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.calls))

    @classmethod
    def parse(cls, text: str) -> Case:
        """Read a case; raises `CaseError`."""
        return cls(tuple(Call.parse(part) for part in text.strip().removesuffix(";").split(";")))


@dataclass(frozen=True, slots=True)
class NamedCase:
    """A case and its test id, such as `odd:bf16:transposed:s0`. The id never depends on the run's seed."""

    id: str
    case: Case = field(compare=False)


PARTS = ("dims", "only", "dtype", "state", "scalars", "absent", "layout", "values", "grad", "backward", "seed")
EXAMPLE = "dims(rows=3) dtype(float32) seed(1f)"


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for word in re.findall(r"\w+\([^()]*\)|\S+", text):
        name, opening, content = word.partition("(")
        if not opening or not content.endswith(")"):
            raise CaseError(f"{word!r} is no part of a case, which looks like {EXAMPLE}")
        if name not in PARTS:
            raise CaseError(f"{name}(...): choose from {', '.join(PARTS)}")
        if name in parts:
            raise CaseError(f"{name}(...) is given twice")
        parts[name] = content[:-1].strip()
        if not parts[name] and name != "dims":
            raise CaseError(f"{name}() is empty: leave it out, or write {name}(...) with something in it")
    if "dims" not in parts:
        raise CaseError(f"{text!r} is no case, which looks like {EXAMPLE}")
    return parts


def _pairs(text: str) -> list[tuple[str, str]]:
    found = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not equals or not NAME.match(name.strip()) for name, equals, _ in found):
        raise CaseError(f"{text!r}: write name=value, separated by commas")
    names = [name.strip() for name, _, _ in found]
    if len(set(names)) < len(names):
        raise CaseError(f"{text!r} gives a name twice")
    return [(name.strip(), value.strip()) for name, _, value in found]


def _size(part: str, name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise CaseError(f"{part}({name}={text}): {'a size' if part == 'dims' else 'an index'} is a whole number")
    return int(text)


def _seed(text: str) -> int:
    if not re.fullmatch(r"[0-9a-f]{1,16}", text):
        raise CaseError(f"seed({text}): a seed is 1 to 16 hexadecimal digits")
    return int(text, 16)


def _written(value: Value) -> str:
    return value if isinstance(value, str) and not _is_json(value) else json.dumps(value)


def _read(text: str) -> Value:
    if not _is_json(text):
        return text
    value: Value = json.loads(text)
    return value


def _is_json(text: str) -> bool:
    try:
        return not isinstance(json.loads(text), (list, dict))
    except ValueError:
        return False
