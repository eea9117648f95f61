"""A task: what must be computed, declared once. Fuzzing, layouts, bindings, bounds and reports all derive from it.

A `Task` is data. It is validated when it is made, so that everybody who is handed one can trust it, and every error
names the field and the fix. It travels as its file: the reference function is the one thing in it that is not data.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from .argument import (
    FLOATS,
    LAYOUTS,
    NAME,
    NO_STATE,
    Argument,
    Dim,
    Optional,
    Param,
    Scalar,
    TaskError,
    Tensor,
    check_name,
    check_tensor,
    flatten,
    written,
)
from .case import COTANGENT
from .expression import Expression, ExpressionError, shape
from .gate import Required, nameable, required
from .options import BASELINES
from .record import BEST, GRADIENTS
from .values import Integers


@dataclass(frozen=True, slots=True, repr=False)
class Range:
    """What fuzzing may draw for a dimension: inclusive ends, or a list of choices."""

    low: int
    high: int
    choices: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str | int) -> Range:
        """`"0..16384"`, `"1|2|4"` or a single number."""
        if match := re.fullmatch(r"\s*(\d+)\s*\.\.\s*(\d+)\s*", str(text)):
            low, high = map(int, match.groups())
            if low <= high:
                return cls(low, high)
        elif re.fullmatch(r"\s*\d+(\s*\|\s*\d+)*\s*", str(text)):
            choices = tuple(int(part) for part in str(text).split("|"))
            return cls(min(choices), max(choices), choices)
        raise ValueError(f"{text!r} is no range")

    def __contains__(self, size: int) -> bool:
        return size in self.choices if self.choices else self.low <= size <= self.high

    def __repr__(self) -> str:
        return repr("|".join(map(str, self.choices)) if self.choices else f"{self.low}..{self.high}")


@dataclass(frozen=True, slots=True)
class Task:
    """A reference function and everything needed to grade claims to compute it.

    - `function` — the reference; its parameters are declared by `args`, one each, in its order.
    - `shapes` — named shapes, each giving every dimension; `where` — a condition that every shape keeps.
    - `time` — per device, which named shapes are timed; a shape listed only under `cuda` is not graded on a CPU.
    - `dtypes` — for arguments that fix no dtype of their own; the first is the one that is timed.
    - `in_place` — arguments that the operator writes; their values afterwards are outputs, after the returned ones.
    - `inputs(dims, generator)` — makes tensors together (a dict by name) where independent draws do not do.
    - `golden` — a float64 implementation of its own, where running the reference in float64 is not the truth.
    - `tolerance` — one fixed rtol and atol, or a dict of `elementwise`, `normwise`, `ulps`, `fixed`.
    - `nan` — whether NaN, infinities and huge values propagate or never occur.
    - `strides` — `"any"` non-overlapping output layout, or `"dense"` promised.
    - `require` — layouts and dtypes that may not be refused, and `"gradients"`.
    - `deterministic` — whether repeats must agree bit by bit, in one process with one number of threads. Numbers of
      threads are settings, as they are for torch, whose own sums depend on them: there a difference is only told.
    - `batch_invariant` — a dimension: what comes out for one index of it, alone, must be bit by bit what comes out in
      the batch. It is a part of its own in the shapes of tensors that have it, and of the outputs' shapes.

    - `fuzz` — ranges per dimension that fuzzing may draw from (`"0..4096"`, `"1|2"`); a dimension that it does not name
      keeps to its sizes in the named shapes, and without any range whole named shapes are drawn.
    - `precision` — `"strict"`, or `"tf32"` where products may be that coarse; `fast_math` — whether functions may be
      approximate, to a relative error of 2^-11.

    - `survivors` — wrong kernels by which an audit shows that the task does not notice them, and why that may be: the
      name that the audit gives them, and a sentence. They count all the same.

    - `min_speedup` — how fast a candidate must be: a number, against the best baseline, or a text that names another
      (`"1.2@eager"`); 0 where nothing is asked. Without it `--kbench-min-speedup` says.

    - `flops` — operations of one call, an expression over dimensions, where their product, which bounds what fuzzing
      draws, is far from it.

    - `grad` — arguments with gradients, in the order in which a `backward` returns them.
    - `ties` — `"mask"` where gradients may take any of the near-equal maxima of a pooling window.

    Declared now, for checks that are still to come:

    - `time_backward` — whether the backward is timed too.
    - `bytes` — an expression over dimensions where counting cannot see them; `baselines` — further named arms.
    - `library` — whether vendor library calls are fine.

    `digest` is a hash of the declaration, its functions' sources and its file (64 hex digits); `tensors` are the tensor
    arguments, optional ones unwrapped.

    Raises `TaskError` when a field is wrong. `name` and `path` are set by whoever loads the task's file.
    """

    function: Callable[..., Any]
    args: Sequence[Argument | Iterable[Argument]]
    shapes: Mapping[str, Mapping[str, int]]
    fuzz: Mapping[str, Any] = field(default_factory=dict)
    where: str | None = None
    time: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dtypes: Sequence[str] = ("float32",)
    grad: Sequence[str] = ()
    time_backward: bool = False
    in_place: Sequence[str] = ()
    inputs: Callable[..., Mapping[str, Any]] | None = None
    golden: Callable[..., Any] | None = None
    tolerance: float | Mapping[str, float] | None = None
    nan: Literal["propagate", "never"] = "propagate"
    ties: Literal["mask"] | None = None
    strides: Literal["any", "dense"] = "any"
    flops: str | None = None
    bytes: str | None = None
    baselines: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    min_speedup: Required | str | float | None = None
    precision: Literal["strict", "tf32"] = "strict"
    fast_math: bool = False
    library: bool = True
    deterministic: bool = False
    batch_invariant: str | None = None
    require: Sequence[str] = ()
    survivors: Mapping[str, str] = field(default_factory=dict)
    name: str = field(default="", repr=False)
    path: Path | None = field(default=None, repr=False)
    digest: str = field(init=False, repr=False, compare=False, default="")
    tensors: tuple[Tensor | Param, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        def put(key: str, value: object) -> None:
            object.__setattr__(self, key, value)  # frozen: this is where it is filled

        for key in ("function", "golden", "inputs"):
            given = getattr(self, key)
            if (given is not None or key == "function") and not hasattr(given, "__code__"):
                raise TaskError(key, f"{given!r} is not a Python function", "Wrap it: def op(x): return ...")
        if self.function.__name__ == "<lambda>":
            raise TaskError("function", "a lambda has no name that candidates could use", "Write def op(x): return ...")
        put("name", self.name or self.function.__name__)
        put("args", flatten(self.args))
        inner = (each.argument if isinstance(each, Optional) else each for each in self.arguments)
        put("tensors", tuple(each for each in inner if isinstance(each, (Tensor, Param))))
        for key in ("dtypes", "grad", "in_place", "require"):
            put(key, _names(key, getattr(self, key)))
        put("shapes", _frozen("shapes", self.shapes, _dims))
        put("fuzz", _frozen("fuzz", self.fuzz, _range))
        put("time", _frozen("time", self.time, _names))
        put("baselines", _baselines(self.baselines))
        put("survivors", _frozen("survivors", self.survivors, _sentence))
        put("min_speedup", _speedup(self))
        _check_arguments(self)
        _check_dimensions(self)
        _check_batch(self)
        _check_choices(self)
        put("digest", _digest(self))

    def __repr__(self) -> str:
        shown = [self.function.__name__, f"args={list(self.args)!r}"]
        for each in fields(self)[2:]:
            value = getattr(self, each.name)
            if each.repr and value != each.default and value not in ({}, ()):
                shown.append(f"{each.name}={written(value)}")
        return f"Task({', '.join(shown)})"

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The declarations, flat, in the reference's order."""
        return tuple(self.args)  # type: ignore[arg-type]  # flattened by __post_init__

    @property
    def states(self) -> tuple[str, ...]:
        """The names of initial states, over all parameters; empty for a task without parameters."""
        names = (state for each in self.tensors if isinstance(each, Param) for state in each.states)
        return tuple(dict.fromkeys(name for name in names if name != NO_STATE))

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Every dimension, in order of appearance in the arguments."""
        return tuple(dict.fromkeys(name for text in _expressions(self) for name in text.names))

    def located(self, path: Path) -> Task:
        """The same task, named after its file."""
        return replace(self, name=path.stem, path=path)

    def graded_shapes(self, device: str) -> tuple[str, ...]:
        """Names of the shapes graded on this kind of device: not those listed only under another device's `time`."""
        elsewhere = {name for kind, names in self.time.items() if kind != device for name in names}
        return tuple(name for name in self.shapes if name not in elsewhere or name in self.time.get(device, ()))


def _names(key: str, value: Any) -> tuple[str, ...]:
    listed = isinstance(value, Iterable) and not isinstance(value, str)
    if not listed or not all(isinstance(each, str) for each in value):
        raise TaskError(key, f"{value!r} is not a list of names", f'Write {key}=["..."]')
    return tuple(value)


def _frozen(key: str, value: Any, convert: Callable[[str, Any], Any]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TaskError(key, f"{value!r} is not a dict", f"Write {key}=dict(...)")
    return MappingProxyType({name: convert(f"{key}[{name!r}]", each) for name, each in value.items()})


def _dims(key: str, value: Any) -> Mapping[str, int]:
    if not isinstance(value, Mapping) or not all(type(size) is int and size >= 0 for size in value.values()):
        raise TaskError(key, f"{value!r} does not map dimensions to sizes", "Write dict(rows=3, columns=65)")
    return MappingProxyType(dict(value))


def _sentence(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TaskError(key, f"{value!r} explains nothing", "Say in a sentence why it may survive")
    return value


def _baselines(value: Any) -> Mapping[str, Callable[..., Any]]:
    if not isinstance(value, Mapping):
        raise TaskError("baselines", f"{value!r} is not a dict", "Write baselines=dict(name=function)")
    for name, function in value.items():
        key = f"baselines[{name!r}]"
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise TaskError(key, "that is no name", "Use letters, digits, '_', '.' and '-'")
        if name in (BEST, *BASELINES):
            raise TaskError(key, "a baseline of that name is there for every task", "Choose another name")
        if not callable(function):
            raise TaskError(key, f"{function!r} cannot be called", "Give a function of the reference's arguments")
    return MappingProxyType(dict(value))


def _speedup(task: Task) -> Required | None:
    try:
        wanted = required(task.min_speedup)
    except ValueError:
        fix = 'Write a number, or "1.2@eager"; 0 asks for nothing'
        raise TaskError("min_speedup", f"{task.min_speedup!r} is no speedup", fix) from None
    if wanted is not None and wanted.baseline not in nameable(task):
        fix = f"Choose from: {', '.join(nameable(task))}"
        raise TaskError("min_speedup", f"{wanted.baseline!r} is no baseline", fix)
    return wanted


def _range(key: str, value: Any) -> Range:
    try:
        return value if isinstance(value, Range) else Range.parse(value)
    except ValueError as error:
        raise TaskError(key, str(error), 'Write "0..4096" (both ends included) or "1|2|4"') from None


def _check_arguments(task: Task) -> None:
    if not task.tensors:
        raise TaskError("args", "declares no tensor", 'Write args=[Tensor("x", "rows columns")]')
    declared = [each.name for each in task.arguments]
    parameters = inspect.signature(task.function).parameters
    if any(each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters.values()):
        raise TaskError(
            "function", "takes *args, **kwargs or keyword-only arguments", "Name every argument, positionally"
        )
    expected = list(parameters)
    if declared != expected:
        raise TaskError(
            "args",
            f"declares ({', '.join(declared)}), but {task.function.__name__} takes ({', '.join(expected)})",
            "Declare one argument per parameter, in the reference's order",
        )
    for each in task.arguments:
        if isinstance(each, Scalar) and not each.choices:
            raise TaskError(f"Scalar({each.name!r})", "has no value", 'Give it values: Scalar("eps", 1e-6, 1e-3)')
        for choice in each.choices if isinstance(each, Scalar) else ():
            if choice is not None and not isinstance(choice, (bool, int, float, str)):
                raise TaskError(
                    f"Scalar({each.name!r})", f"{choice!r} is no scalar", "Use numbers, flags, words or None"
                )
            if isinstance(choice, str) and not NAME.match(choice):
                raise TaskError(
                    f"Scalar({each.name!r})", f"{choice!r} cannot be part of a case", "Use letters, digits, _ . -"
                )
    known = {tensor.name: tensor for tensor in task.tensors}
    for tensor in known.values():
        check_tensor(tensor, known)
    for key in ("grad", "in_place"):
        for name in getattr(task, key):
            if name not in known:
                raise TaskError(key, f"{name!r} is no tensor argument", f"Choose from: {', '.join(known)}")
    if task.grad and task.in_place:
        raise TaskError("grad", "gradients of operators that write in_place are not graded", "Leave one of the two out")
    if task.grad and COTANGENT in known:
        raise TaskError("args", f"{COTANGENT!r} is what cases call the start of a backward", "Choose another name")
    if twice := [name for name in task.grad if list(task.grad).count(name) > 1]:
        raise TaskError("grad", f"{twice[0]!r} is there twice", "Name it once")
    for name in task.grad:
        if (known[name].dtype or "float32") not in FLOATS:
            raise TaskError("grad", f"{name!r} is {known[name].dtype}, which has no gradient", "Leave it out")


def _expressions(task: Task) -> tuple[Expression, ...]:
    found: list[Expression] = []

    def read(
        field: str, text: str, parse: Callable[[str], tuple[Expression, ...]] = lambda t: (Expression(t),)
    ) -> None:
        try:
            found.extend(parse(text))
        except ExpressionError as error:
            raise TaskError(field, str(error), 'Write expressions over dimensions: "b kv*group sq d"') from None

    for each in task.arguments:
        inner = each.argument if isinstance(each, Optional) else each
        if isinstance(inner, Dim):
            read(f"Dim({inner.name!r})", inner.value)
        if isinstance(inner, (Tensor, Param)):
            read(f"{type(inner).__name__}({inner.name!r}).shape", inner.shape, shape)
        if isinstance(inner, Param) and inner.present is not None:
            read(f"Param({inner.name!r}).present", inner.present)
        values = tuple(inner.states.values()) if isinstance(inner, Param) else (getattr(inner, "values", None),)
        found += [
            end
            for value in values
            if isinstance(value, Integers)
            for end in (value.low, value.high)
            if isinstance(end, Expression)
        ]
    for key in ("where", "flops", "bytes"):
        if (text := getattr(task, key)) is not None:
            read(key, text)
    return tuple(found)


def _check_dimensions(task: Task) -> None:
    known = set(task.dimensions)
    if not task.shapes:
        raise TaskError("shapes", "no shape is named", 'Write shapes={"odd": dict(rows=3, columns=65)}')
    for name, dims in task.shapes.items():
        where = f"shapes[{name!r}]"
        check_name("shapes", name)
        if missing := known - set(dims):
            text = f"does not give {', '.join(sorted(missing))}"
            raise TaskError(where, text, "Give every dimension a size, or mend its name where an argument uses it")
        if unknown := set(dims) - known:
            raise TaskError(
                where, f"gives {', '.join(sorted(unknown))}, which no argument uses", "Remove it, or use it in a shape"
            )
        if task.where is not None and not Expression(task.where)(dims):
            raise TaskError(where, f"breaks where={task.where!r}", "Change the shape or the condition")
        for tensor in task.tensors:
            if isinstance(tensor, Param) and tensor.present is not None and not Expression(tensor.present)(dims):
                continue
            sizes = [size(dims) for size in shape(tensor.shape)]
            if min(sizes, default=0) < 0:
                raise TaskError(where, f"makes {tensor.name!r} of shape {sizes}", "Exclude it by where=")
    for name in task.fuzz:
        if name not in known:
            raise TaskError(
                f"fuzz[{name!r}]", "no argument uses this dimension", f"Choose from: {', '.join(sorted(known))}"
            )
    for name, dims in task.shapes.items():
        for dimension, allowed in task.fuzz.items():
            if dims[dimension] not in allowed:
                raise TaskError(
                    f"fuzz[{dimension!r}]",
                    f"{allowed!r} leaves out shapes[{name!r}], which has {dimension}={dims[dimension]}",
                    "Widen the range: what is named is allowed",
                )
    for device, names in task.time.items():
        if device not in ("cpu", "cuda"):
            raise TaskError(f"time[{device!r}]", "is no kind of device", "Use cpu and cuda")
        for name in names:
            if name not in task.shapes:
                raise TaskError(
                    f"time[{device!r}]", f"{name!r} is no named shape", f"Choose from: {', '.join(task.shapes)}"
                )


def why_not_alone(task: Task, dimension: str) -> str | None:
    """Why no single index of this dimension can be taken out of a task's inputs, or `None` if it can."""
    if dimension not in task.dimensions:
        return f"{dimension!r} is no dimension; choose from {', '.join(task.dimensions)}"
    having = [each for each in task.tensors if any(dimension in part.names for part in shape(each.shape))]
    for each in having:
        if isinstance(each, Param):
            return f"the parameter {each.name!r} has {dimension!r} in its shape"
        if [part.text for part in shape(each.shape) if dimension in part.names] != [dimension]:
            return f"{dimension!r} is not one part of its own in the shape {each.shape!r} of {each.name!r}"
    return None if having else f"no tensor has {dimension!r} in its shape"


def _check_batch(task: Task) -> None:
    name = task.batch_invariant
    if name is None:
        return
    if problem := why_not_alone(task, name):
        raise TaskError("batch_invariant", problem, "Name a dimension that inputs have as a part of their shapes")
    alone = all(task.where is None or Expression(task.where)({**dims, name: 1}) for dims in task.shapes.values())
    if not alone or (name in task.fuzz and 1 not in task.fuzz[name]):
        raise TaskError("batch_invariant", f"where= or fuzz= leaves out {name}=1", "Allow it: an index alone is that")


def _check_choices(task: Task) -> None:
    allowed: dict[str, tuple[object, ...]] = {
        "nan": ("propagate", "never"),
        "ties": (None, "mask"),
        "strides": ("any", "dense"),
        "precision": ("strict", "tf32"),
    }
    for key, choices in allowed.items():
        if getattr(task, key) not in choices:
            raise TaskError(key, f"{getattr(task, key)!r} is unknown", f"Choose from: {', '.join(map(str, choices))}")
    if not task.dtypes or len(set(task.dtypes)) < len(task.dtypes) or set(task.dtypes) - set(FLOATS):
        raise TaskError(
            "dtypes",
            f"{list(task.dtypes)} is not a list of different floating-point dtypes",
            f"Choose from: {', '.join(FLOATS)}",
        )
    for name in task.require:
        if name not in (*LAYOUTS, *task.dtypes, GRADIENTS):
            raise TaskError(
                "require",
                f"{name!r} is neither a layout, nor one of the dtypes, nor {GRADIENTS}",
                f"Choose from: {', '.join((*LAYOUTS, *task.dtypes, GRADIENTS))}",
            )
    if isinstance(task.tolerance, Mapping):
        if "fixed" in task.tolerance and len(task.tolerance) > 1:
            raise TaskError("tolerance", "fixed replaces the other parts", "Give it alone")
        for key, value in task.tolerance.items():
            if key not in ("elementwise", "normwise", "ulps", "fixed") or not _positive(value):
                raise TaskError(
                    "tolerance",
                    f"{key}={value!r} is no part of a tolerance",
                    "Use elementwise, normwise, ulps or fixed, each > 0",
                )
    elif task.tolerance is not None and not _positive(task.tolerance):
        raise TaskError("tolerance", f"{task.tolerance!r} is no tolerance", "Use a positive number")


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _digest(task: Task) -> str:
    functions = (task.function, task.golden, task.inputs, *task.baselines.values())
    text = "\n".join([repr(task), *(_source(each) for each in functions if each is not None)])
    if task.path is not None:
        text += task.path.read_text(errors="replace")  # helpers that the functions call
    return hashlib.sha256(text.encode()).hexdigest()


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return repr(getattr(function, "__code__", function))
