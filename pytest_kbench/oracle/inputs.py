"""Case -> tensors: draw every argument of a call from its seed, and say how it lies in memory.

Values are private to the grader and dense; the layout is only described here (strides, offset, storage), and made by
whoever shares the tensor with a child.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from ..argument import Dim, Optional, Param, Scalar, Tensor
from ..case import COTANGENT, SUMMED, Call, CaseError
from ..expression import Expression, ExpressionError, shape
from ..task import Task, why_not_alone
from ..values import Constant, Distribution, Integers, Kaiming, Masks, Normal, Uniform, UniformFanIn, Xavier
from .coverage import derive, takes_plans

BYTES_PER_ELEMENT_ON_DEVICE = 96  # measured on a GPU, where the child's own copies lie in the same memory
BYTES_PER_ELEMENT = 64  # what grading holds per input element: float64 copies, bounds, shared buffers
EDGES = "edges"  # the value plan of declared integers: the lowest and the highest alone
GAP = 7  # elements between rows of a sliced tensor, odd so that no row keeps the base's alignment


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor argument: its values (dense, private) and how a child shall see it, in elements."""

    name: str
    values: torch.Tensor
    strides: tuple[int, ...]
    offset: int
    storage: int
    in_place: bool


@dataclass(frozen=True, slots=True)
class Plain:
    """An argument that is no tensor: a scalar, a dimension, or an absent optional argument (`None`)."""

    name: str
    value: float | int | bool | str | None


class InputsFailed(Exception):
    """The task's own `inputs=` raised, or made something else than what is declared."""


Arguments = tuple[Placed | Plain, ...]


class TooLarge(Exception):
    """A case that is right, and takes more memory to judge than the device has."""


def draw(task: Task, call: Call, device: torch.device | str = "cpu", *, judged: bool = True) -> Arguments:
    """Every argument of this call, in the reference's order.

    Where the call is for one index of a dimension `only`, tensors that have the dimension are drawn as for all of
    them, and then narrowed to that index; dimensions that are arguments are 1 there.
    Raises `CaseError` if the call does not fit the task, `TooLarge` if it is to be `judged` and cannot be, and
    `InputsFailed`.
    """
    dims, scalars, layouts, plans = dict(call.dims), dict(call.scalars), dict(call.layouts), dict(call.plans)
    require_fit(task, call, device)
    if judged:
        _require_device_memory(task, dims, torch.device(device))
    together = _together(task, call, dims, device)
    only = dict(call.only)
    narrowed = {name: 1 if name in only else size for name, size in dims.items()}
    arguments: list[Placed | Plain] = []
    for declared in task.arguments:
        each = declared.argument if isinstance(declared, Optional) else declared
        if isinstance(each, Dim):
            arguments.append(Plain(each.name, Expression(each.value)(narrowed)))
        elif isinstance(each, Scalar):
            arguments.append(Plain(each.name, scalars[each.name]))
        elif each.name in call.absent or (
            isinstance(each, Param) and each.present and not Expression(each.present)(dims)
        ):
            arguments.append(Plain(each.name, None))
        else:
            size = tuple(extent(dims) for extent in shape(each.shape))
            dtype: torch.dtype = getattr(torch, each.dtype or call.dtype)
            layout = layouts.get(each.name, "dense")
            if each.name in together:
                values = together[each.name].to(dtype=dtype, device=device)
            else:
                values = _values(task, each, call, dims, plans.get(each.name, "normal"), size, dtype, device)
            if layout == "expanded" and size and size[0] > 1:
                values = values[:1].expand(size).contiguous()
            for axis, part in enumerate(shape(each.shape)):
                if part.text in only:
                    values = values.narrow(axis, only[part.text], 1).contiguous()
            placed = place(layout, tuple(values.shape))
            arguments.append(Placed(each.name, values, *placed, each.name in task.in_place))
    return tuple(arguments)


def cotangents(call: Call, outputs: Sequence[torch.Tensor]) -> tuple[Placed, ...]:
    """What the backward of this call starts from: one tensor like each of the forward's floating-point outputs."""
    layout, plan = dict(call.layouts).get(COTANGENT, "dense"), dict(call.plans).get(COTANGENT, "normal")
    found = []
    for index, output in enumerate(outputs):
        if output.is_floating_point():
            size = tuple(output.shape)
            generator = _generator(call.seed, f"{COTANGENT} {index}", output.device)
            values = PLANNED[plan](size, output.dtype, generator).to(output.dtype)
            if values.numel() and layout == SUMMED:
                values = values.reshape(-1)[:1].expand(values.numel()).reshape(size).contiguous()
            elif layout == "expanded" and size and size[0] > 1:
                values = values[:1].expand(size).contiguous()
            name = COTANGENT if len(outputs) == 1 else f"{COTANGENT} {index}"
            found.append(Placed(name, values, *place(layout, size), in_place=False))
    return tuple(found)


def place(layout: str, size: tuple[int, ...]) -> tuple[tuple[int, ...], int, int]:
    """Strides, offset and storage of a layout, all in elements. A layout that a rank does not have is dense."""
    dense = _dense(size)
    numel = math.prod(size)
    match layout:
        case "transposed" if len(size) >= 2:
            swapped = _dense((*size[:-2], size[-1], size[-2]))
            return (*swapped[:-2], swapped[-1], swapped[-2]), 0, numel
        case "sliced" if len(size) >= 2:
            wide = (*size[:-1], size[-1] + GAP)
            return _dense(wide), 0, math.prod(wide)
        case "sliced" if len(size) == 1:
            return (2,), 0, 2 * numel
        case "offset" if size:
            return dense, 1, numel + 1
        case "channels_last" if len(size) == 4:
            batch, height, width, channels = _dense((size[0], size[2], size[3], size[1]))
            return (batch, channels, height, width), 0, numel
        case "expanded" if size:
            return (0, *dense[1:]), 0, math.prod(size[1:])
        case "summed":
            return (0,) * len(size), 0, min(numel, 1)
    return dense, 0, numel


def laid_out(argument: Placed) -> torch.Tensor:
    """A private tensor of these values that lies in memory as a child shall see it."""
    values = argument.values
    storage = torch.zeros(argument.storage, dtype=values.dtype, device=values.device)
    tensor = storage.as_strided(values.shape, argument.strides, argument.offset)
    if values.numel():
        once = tuple(0 if stride == 0 else slice(None) for stride in argument.strides)
        tensor[once].copy_(values[once])
    return tensor


def _dense(size: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(max(extent, 1) for extent in size[index + 1 :]) for index in range(len(size)))


def require_fit(task: Task, call: Call, device: torch.device | str = "cpu") -> None:
    """Raise `CaseError` if the call does not fit the task, or on the CPU the machine's memory."""
    try:
        _check(task, call, dict(call.dims), dict(call.scalars))
        needed = _elements(task, dict(call.dims)) * BYTES_PER_ELEMENT
    except ExpressionError as error:
        raise CaseError(f"dims: {error}") from None
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > free and torch.device(device).type == "cpu":
        raise CaseError(f"dims: grading this takes about {needed >> 30} GiB, and {free >> 30} GiB are free")


def _check(task: Task, call: Call, dims: Mapping[str, int], scalars: Mapping[str, object]) -> None:
    tensors = {each.name for each in task.tensors}
    optional = {each.name for each in task.arguments if isinstance(each, Optional)}
    wanted = {each.name for each in task.arguments if isinstance(each, Scalar)}
    negative = [f"{name}={size}" for name, size in dims.items() if size < 0]
    if negative:
        raise CaseError(f"dims: {', '.join(negative)}: a size is at least 0")
    if set(dims) != set(task.dimensions):
        raise CaseError(f"dims: {task.name} has ({', '.join(task.dimensions)}), the case gives ({', '.join(dims)})")
    if task.where is not None and not Expression(task.where)(dims):
        raise CaseError(f"dims: {task.name} needs {task.where}")
    for name, _ in call.only:
        if problem := why_not_alone(task, name):
            raise CaseError(f"only({name}): {problem}")
    if call.dtype not in task.dtypes:
        raise CaseError(f"dtype({call.dtype}): {task.name} has ({', '.join(task.dtypes)})")
    if set(scalars) != wanted:
        raise CaseError(
            f"scalars: {task.name} has ({', '.join(sorted(wanted))}), the case gives ({', '.join(scalars)})"
        )
    if call.state is not None and call.state not in task.states:
        raise CaseError(f"state({call.state}): {task.name} has ({', '.join(task.states)})")
    if unknown := set(call.grad) - set(task.grad):
        raise CaseError(f"grad({', '.join(sorted(unknown))}): {task.name} declares grad=({', '.join(task.grad)})")
    if call.grad and call.only:
        raise CaseError("grad and only: the gradients of one index alone are not graded")
    if (plan := dict(call.plans).get(COTANGENT, "normal")) not in PLANNED:
        raise CaseError(f"values({COTANGENT}={plan}): choose from {', '.join(PLANNED)}")
    for part, names, known in (
        ("layout", [name for name, _ in call.layouts if name != COTANGENT], tensors),
        ("values", [name for name, _ in call.plans if name != COTANGENT], tensors),
        ("absent", call.absent, optional),
    ):
        if unknown := set(names) - known:
            raise CaseError(f"{part}: {task.name} has no such argument: {', '.join(sorted(unknown))}")
    for each in task.tensors:
        plan = dict(call.plans).get(each.name, "normal")
        known_plans = each.values.kinds if isinstance(each, Tensor) and isinstance(each.values, Masks) else ()
        known_plans += (EDGES,) if isinstance(each, Tensor) and isinstance(each.values, Integers) else ()
        known_plans += tuple(PLANNED) if isinstance(each, Tensor) and takes_plans(task, each) else ("normal",)
        if plan not in known_plans:
            raise CaseError(f"values({each.name}={plan}): choose from {', '.join(known_plans)}")


def _elements(task: Task, dims: Mapping[str, int]) -> int:
    return sum(math.prod(extent(dims) for extent in shape(each.shape)) for each in task.tensors)


def can_judge(task: Task, call: Call, device: str) -> bool:
    """Whether the device has the memory that judging a call takes, if nobody else uses it."""
    try:
        _require_device_memory(task, dict(call.dims), torch.device(device))
    except TooLarge:
        return False
    return True


def _require_device_memory(task: Task, dims: Mapping[str, int], device: torch.device) -> None:
    if device.type != "cuda":
        return
    needed = _elements(task, dims) * BYTES_PER_ELEMENT_ON_DEVICE
    there = torch.cuda.get_device_properties(device).total_memory
    if needed > there:
        raise TooLarge(f"judging this takes about {needed >> 30} GiB of GPU memory, and there are {there >> 30} GiB")


def _together(
    task: Task, call: Call, dims: Mapping[str, int], device: torch.device | str
) -> Mapping[str, torch.Tensor]:
    if task.inputs is None:
        return {}
    names = {each.name: each for each in task.tensors}
    try:
        made = dict(task.inputs(dict(dims), _generator(call.seed, "inputs", device)))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # the task's own code: whatever it raises is reported as the task's
        raise InputsFailed(f"inputs raised {type(error).__name__}: {error}") from error
    for name, value in made.items():
        if name not in names:
            raise InputsFailed(f"inputs made {name!r}, which is no tensor argument; choose from {', '.join(names)}")
        size = tuple(extent(dims) for extent in shape(names[name].shape))
        if not isinstance(value, torch.Tensor) or tuple(value.shape) != size:
            found = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise InputsFailed(f"inputs made {name!r} as {found}; the declaration says {size}")
    return made


def _values(
    task: Task,
    declared: Tensor | Param,
    call: Call,
    dims: Mapping[str, int],
    plan: str,
    size: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device | str,
) -> torch.Tensor:
    generator = _generator(call.seed, declared.name, device)
    distribution = declared.distribution(call.state) if isinstance(declared, Param) else declared.values
    if distribution is not None:
        return _distributed(task, distribution, dims, plan, size, dtype, generator)
    return PLANNED[plan](size, dtype, generator).to(dtype)


def _generator(seed: int, purpose: str, device: torch.device | str) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(derive(seed, purpose))


def _distributed(
    task: Task,
    distribution: Distribution,
    dims: Mapping[str, int],
    plan: str,
    size: tuple[int, ...],
    dtype: torch.dtype,
    generator: torch.Generator,
) -> torch.Tensor:
    match distribution:
        case Normal(mean, std):
            return _normal(size, generator).mul_(std).add_(mean).to(dtype)
        case Uniform(low, high):
            return _uniform(size, generator, low, high).to(dtype)
        case Constant(value):
            return torch.full(size, value, dtype=dtype, device=generator.device)
        case Kaiming():
            bound = math.sqrt(6.0 / max(math.prod(size[1:]), 1))
            return _uniform(size, generator, -bound, bound).to(dtype)
        case Xavier():
            fans = math.prod(size[1:]) + math.prod((*size[:1], *size[2:]))
            bound = math.sqrt(6.0 / max(fans, 1))
            return _uniform(size, generator, -bound, bound).to(dtype)
        case UniformFanIn(of):
            other = next(each for each in task.tensors if each.name == of)
            fan_in = math.prod(extent(dims) for extent in shape(other.shape)[1:])
            bound = 1.0 / math.sqrt(max(fan_in, 1))
            return _uniform(size, generator, -bound, bound).to(dtype)
        case Integers(low, high, also):
            first, end = (int(limit(dims)) if isinstance(limit, Expression) else limit for limit in (low, high))
            values = torch.randint(first, max(end, first + 1), size, generator=generator, device=generator.device)
            if plan == EDGES:
                values = torch.where(_uniform(size, generator, 0.0, 1.0) < 0.5, first, max(end - 1, first))
            for extra in also:
                values[_uniform(size, generator, 0.0, 1.0) < 0.1] = extra
            return values.to(dtype)
        case Masks(kinds):
            return _mask(kinds[0] if plan == "normal" else plan, size, generator).to(dtype)


def _normal(size: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.empty(size, device=generator.device).normal_(generator=generator)


def _uniform(size: tuple[int, ...], generator: torch.Generator, low: float, high: float) -> torch.Tensor:
    return torch.empty(size, device=generator.device).uniform_(low, high, generator=generator)


def _mask(kind: str, size: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    allowed = torch.ones(size, dtype=torch.bool, device=generator.device)
    rows, columns = size[-2:]
    match kind:
        case "causal":
            return allowed.tril_(columns - rows)
        case "padding":
            kept = torch.randint(
                min(1, columns), columns + 1, (*size[:-2], 1, 1), generator=generator, device=generator.device
            )
            return (torch.arange(columns, device=generator.device) < kept).expand(size).contiguous()
        case "random":
            starts = _uniform((*size[:-1], 1), generator, -3.0 * columns, columns)
            begun = torch.arange(columns, device=generator.device) >= starts  # a quarter of the rows begin late
            return (_uniform(size, generator, 0.0, 1.0) < 0.7) & begun
        case "empty-row":
            allowed[..., rows // 2 : rows // 2 + 1, :] = False
    return allowed


def _rows(size: tuple[int, ...]) -> tuple[int, ...]:
    return (*size[:-1], 1) if size else ()


def _largest(dtype: torch.dtype) -> float:
    """The largest finite number of a dtype, or of float32, in which values are drawn."""
    return min(float(torch.finfo(dtype).max), float(torch.finfo(torch.float32).max))


def _wide(size: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Magnitudes over several powers of ten: what a Gaussian-tail shortcut does not expect. Finite in float16 too."""
    limit = _largest(dtype) / 4
    return _normal(size, generator).mul_(_normal(size, generator).mul_(2.0).exp_()).clamp_(-limit, limit)


def _scaled(size: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Each row at a scale of its own, from 1e-3 to 1e3."""
    return _normal(size, generator).mul_(torch.pow(10.0, _uniform(_rows(size), generator, -3.0, 3.0)))


def _spike(size: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Zero but for one element."""
    values = torch.zeros(size, device=generator.device)
    return _sprinkle(values, generator, (100.0,))


def _huge(size: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Finite, but squares and some sums overflow."""
    return _normal(size, generator).clamp_(-4, 4).mul_(_largest(dtype) / 256)


def _sorted(size: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Positive, ascending along the last dimension: the largest element comes last, and no partial sum cancels."""
    values = _normal(size, generator).abs_()
    return values.sort(-1).values if size else values


def _levels(size: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Each row about a level of its own, from -30 to 30: rows in the tail of a sigmoid, where others cannot hide it."""
    return _normal(size, generator).add_(_uniform(_rows(size), generator, -30.0, 30.0))


def _subnormal(size: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Below the dtype's smallest normal number, most of them."""
    return _normal(size, generator).mul_(torch.finfo(dtype).smallest_normal / 4)


def _zeros(size: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Zeros of both signs, with a normal value here and there."""
    values = _normal(size, generator)
    return torch.where(_uniform(size, generator, 0.0, 1.0) < 0.9, values * 0.0, values)


def _tiny(size: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Each row at a tiny scale of its own, whose squares vanish."""
    least = -6.0 if dtype == torch.float16 else -30.0
    return _normal(size, generator).mul_(torch.pow(10.0, _uniform(_rows(size), generator, least, -3.0)))


def _extreme(size: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Each row at a scale of its own, from nearly nothing to nearly too much."""
    least, most = (-5.0, 4.0) if dtype == torch.float16 else (-25.0, 25.0)
    return _normal(size, generator).mul_(torch.pow(10.0, _uniform(_rows(size), generator, least, most)))


def _sprinkle(values: torch.Tensor, generator: torch.Generator, extras: tuple[float, ...]) -> torch.Tensor:
    """Overwrite a few random elements: each of `extras` once, the first of them as often as not at the very end."""
    if values.numel():
        where = torch.randint(values.numel(), (len(extras),), generator=generator, device=generator.device)
        if float(_uniform((), generator, 0.0, 1.0)) < 0.5:
            where[0] = values.numel() - 1
        values.view(-1)[where] = torch.tensor(extras, device=generator.device)
    return values


def _near_largest(dtype: torch.dtype) -> float:
    return min(1e4, _largest(dtype) / 4)


PLANNED: Mapping[str, Callable[[tuple[int, ...], torch.dtype, torch.Generator], torch.Tensor]] = {
    "normal": lambda size, _, generator: _normal(size, generator),
    "wide": _wide,
    "shifted": lambda size, dtype, generator: _normal(size, generator).add_(_near_largest(dtype)),
    "scaled": _scaled,
    "constant": lambda size, _, generator: torch.ones(size, device=generator.device).mul_(_normal((), generator)),
    "binary": lambda size, _, generator: _uniform(size, generator, 0.0, 2.0).floor_(),
    "spike": _spike,
    "ties": lambda size, _, generator: _uniform(size, generator, -2.0, 3.0).floor_(),
    "sorted": _sorted,
    "levels": _levels,
    "subnormal": _subnormal,
    "zeros": _zeros,
    "tiny": _tiny,
    "nan": lambda size, _, generator: _sprinkle(_normal(size, generator), generator, (math.nan,)),
    "inf": lambda size, _, generator: _sprinkle(_normal(size, generator), generator, (math.inf, -math.inf)),
    "huge": _huge,
    "extreme": _extreme,
}
