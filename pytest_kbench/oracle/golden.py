"""The truth about one call: the reference in float64, in the working dtype, and in float64 on inputs one ulp away."""

from __future__ import annotations

import functools
import random
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..task import Task
from .bits import same_bits
from .composed import Composed
from .coverage import derive
from .inputs import Arguments, Placed, laid_out
from .modes import LOWER, Double, Shaking, nudge, shake
from .ties import Contested

Started = tuple[tuple[str, ...], tuple[torch.Tensor, ...]]  # names of leaves, cotangents

NOW_AND_THEN = 0.1  # of all cases: so many may show a fault of the library that a reference is made of
ROUNDINGS = 16  # units of the largest value by which a result may differ from itself
SHAKES = 2  # one draw may be small by chance where a single element decides: a row with one large value


class ReferenceFailed(Exception):
    """The task's own function raised, or returned no tensors, on a case inside its declaration."""


@dataclass(frozen=True, slots=True)
class Golden:
    """Per output: float64 values (integers as they are), what eager gives, and golden of shaken inputs.

    Eager is the reference in the working dtype on dense inputs or on inputs as they lie, whichever is farther from
    golden, element by element: torch rounds differently where it cannot vectorise.

    `terms` is how many terms the longest sum behind each output may have, 1 where the reference sums nothing; `summed`
    how many the longest sum that was seen has; `kinks` whether an operator chose, a ReLU say. `contested` is how far
    gradients move where the choice of a maximum, or the sign of what a ReLU got, is up to rounding; `None` where
    nothing is. `weights` are what softmaxes gave whose gradients were asked for. Outputs are what the function returns,
    then the arguments that it writes in place, or the gradients that were asked for.
    """

    golden: tuple[torch.Tensor, ...]
    eager: tuple[torch.Tensor, ...]
    shaken: tuple[torch.Tensor, ...]
    terms: tuple[int, ...]
    summed: int
    kinks: bool
    contested: tuple[torch.Tensor, ...] | None = None
    weights: tuple[torch.Tensor, ...] = ()


@dataclass(frozen=True, slots=True)
class Eager:
    """What the reference gives in the working dtype: `outputs`, of which the first `returned` are returned.

    After them come arguments that it writes, or where a backward was asked for one gradient per leaf.
    """

    outputs: tuple[torch.Tensor, ...]
    returned: int


@dataclass(frozen=True, slots=True)
class Backward:
    """What is differentiated: by which arguments, and what the backward starts from (one per floating-point output).

    `how` a candidate's backward is called (a case's `backward`) makes no difference to the truth.
    """

    leaves: tuple[str, ...]
    cotangents: tuple[Placed, ...]
    how: str | None = None


def eager(task: Task, arguments: Arguments, backward: Backward | None = None) -> Eager:
    """Run the reference as it is, on private copies of the arguments. Raises `ReferenceFailed`."""
    copies = _taken(arguments, torch.clone)
    outcome = _run(task, task.function, copies, _started(backward, torch.clone))
    for each in arguments:
        if isinstance(each, Placed) and not each.in_place and not same_bits(each.values, copies[each.name]):
            raise ReferenceFailed(f'{task.function.__name__} writes {each.name}; declare in_place=["{each.name}"]')
    return outcome


def unsteady(task: Task, arguments: Arguments, first: Eager) -> str | None:
    """What is wrong with a reference that gives something else when it runs again, on the same arguments."""
    again = eager(task, arguments)
    if len(again.outputs) == len(first.outputs) and not any(map(apart, again.outputs, first.outputs)):
        return None
    return (
        f"{task.function.__name__} gives something else when it is run again on the same inputs: nothing can be judged "
        "by it; let it draw no random numbers (no dropout in training mode), and remember nothing"
    )


def apart(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two results of the same function differ by more than where they lie in memory explains."""
    if a.shape != b.shape or not a.is_floating_point():
        return not torch.equal(a, b)
    finite = a.isfinite() & b.isfinite()
    near = ROUNDINGS * torch.finfo(b.dtype).eps * float(b[finite].abs().max()) if bool(finite.any()) else 0.0
    return bool(((a - b).abs()[finite] > near).any())


def golden(
    task: Task, arguments: Arguments, dtype: str, seed: int, eager: Eager, backward: Backward | None = None
) -> Golden:
    """Run the reference in float64, and once more shaken, for a case of this dtype. Raises `ReferenceFailed`."""
    truth = task.golden or task.function
    chance = random.Random(derive(seed, "shake"))
    exact = _exactly(task, arguments, backward, double := Double())
    shaking = Shaking(getattr(torch, dtype), chance, arrived=double.arrived, weights=double.weights)
    moves = functools.partial(_shaken, chance=chance)
    forms: list[AbstractContextManager[object]] = [nullcontext()] * SHAKES
    if backward is not None:
        forms.append(Composed())
    moved = [(_taken(arguments, moves), _started(backward, moves)) for _ in forms]
    draws = []
    for form, each in zip(forms, moved, strict=True):
        with shaking, form:
            draws.append(_run(task, truth, *each).outputs)
    shapes = [[each.shape for each in outputs] for outputs in (eager.outputs, exact, *draws)]
    if any(each != shapes[0] for each in shapes):
        raise ReferenceFailed(f"{truth.__name__} in float64 returns other shapes than {task.function.__name__}")
    shaken = tuple(_farthest(golden, each) for golden, each in zip(exact, zip(*draws, strict=True), strict=True))
    terms = tuple(max(_terms(arguments, each), shaking.terms) if shaking.sums else 1 for each in exact)
    lying = _eager_as_they_lie(task, arguments, eager.outputs, exact, backward)
    moving = _contested(task, arguments, backward, exact, dtype, chance) if shaking.kinks else None
    return Golden(exact, lying, shaken, terms, shaking.terms, shaking.kinks, moving, tuple(double.weights))


def _exactly(task: Task, arguments: Arguments, backward: Backward | None, mode: Double) -> tuple[torch.Tensor, ...]:
    """The reference in float64, under a mode that is not there yet when its arguments are made."""
    taken, started = _taken(arguments, _double), _started(backward, _double)
    with mode:
        return _run(task, task.golden or task.function, taken, started).outputs


def _contested(
    task: Task,
    arguments: Arguments,
    backward: Backward | None,
    exact: Sequence[torch.Tensor],
    dtype: str,
    chance: random.Random,
) -> tuple[torch.Tensor, ...] | None:
    """How far each gradient moves where it is up to rounding (see `ties`); no output does."""
    if backward is None:
        return None
    maxima, signs = task.ties == "mask", chance.getrandbits(63)
    modes = [Contested(getattr(torch, dtype), chance, maxima=maxima, signs=signs, sign=sign) for sign in (1.0, -1.0)]
    draws = [_exactly(task, arguments, backward, mode) for mode in modes]
    moved = [
        [(each - golden).abs_() for each in each_draw]
        for golden, each_draw in zip(exact, zip(*draws, strict=True), strict=True)
    ]
    return tuple(functools.reduce(torch.maximum, each) for each in moved)


def coarser(
    task: Task, arguments: Arguments, mode: Double, backward: Backward | None = None
) -> tuple[torch.Tensor, ...]:
    """Golden's outputs once more, under a mode that does some of the work less exactly. Raises `ReferenceFailed`."""
    with mode:  # inputs too are made under it, as it may round them
        taken, started = _taken(arguments, _double), _started(backward, _double)
        return _run(task, task.golden or task.function, taken, started).outputs


def rounded(
    task: Task,
    arguments: Arguments,
    dtype: str,
    seed: int,
    backward: Backward | None,
    exact: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor] = (),
) -> tuple[torch.Tensor, ...]:
    """Golden's outputs with cotangents and every rounded result moved by a unit of the working dtype.

    Autograd rounds every part of a gradient to the dtype of its tensor, and adds parts in it: where they cancel, what
    is left is as large as a rounding of the parts. So is what a ReLU leaves of a product and its bias. `exact` are
    golden's outputs, `weights` those of its softmaxes. Raises `ReferenceFailed`.
    """
    chance, unit = random.Random(derive(seed, "rounded")), torch.finfo(getattr(torch, dtype)).eps
    forms: tuple[AbstractContextManager[object], ...] = (
        nullcontext(),
        nullcontext() if backward is None else Composed(),
    )
    draws = []
    for form in forms:
        started = _started(backward, functools.partial(_nudged, unit=unit, chance=chance))
        taken = _taken(arguments, _double)
        with Shaking(getattr(torch, dtype), chance, unit=unit, weights=weights), form:
            draws.append(_run(task, task.golden or task.function, taken, started).outputs)
    return tuple(_farthest(each, made) for each, made in zip(exact, zip(*draws, strict=True), strict=True))


def _eager_as_they_lie(
    task: Task,
    arguments: Arguments,
    dense: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor],
    backward: Backward | None,
) -> tuple[torch.Tensor, ...]:
    """Eager's outputs, those on strided inputs where they are farther from golden."""
    tensors = [each for each in arguments if isinstance(each, Placed)]
    tensors += [] if backward is None else backward.cotangents
    if all(each.strides == each.values.stride() and not each.offset for each in tensors):
        return tuple(dense)
    taken = {each.name: laid_out(each) if isinstance(each, Placed) else each.value for each in arguments}
    started = None if backward is None else (backward.leaves, tuple(map(laid_out, backward.cotangents)))
    strided = _run(task, task.function, taken, started).outputs
    return tuple(
        torch.where((b.double() - golden).abs() > (a.double() - golden).abs(), b, a) if a.is_floating_point() else a
        for a, b, golden in zip(dense, strided, exact, strict=True)
    )


def _farthest(exact: torch.Tensor, draws: Sequence[torch.Tensor]) -> torch.Tensor:
    """Golden plus, element by element, the largest distance that any draw has from it; NaN where none has one."""
    if not exact.is_floating_point():
        return exact
    distances = [(each - exact).abs_() for each in draws]
    return exact + functools.reduce(torch.fmax, distances)


def _terms(arguments: Arguments, output: torch.Tensor) -> int:
    """How many terms the longest sum behind an output may have: a long dimension, or all inputs per output."""
    inputs = [each.values for each in arguments if isinstance(each, Placed)]
    longest = max((extent for each in inputs for extent in each.shape), default=1)
    return max(longest, max((each.numel() for each in inputs), default=1) // max(output.numel(), 1), 1)


def _taken(arguments: Arguments, take: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Any]:
    """What the function gets for each argument: something made of its values, or the plain value."""
    return {each.name: take(each.values) if isinstance(each, Placed) else each.value for each in arguments}


def _started(backward: Backward | None, take: Callable[[torch.Tensor], torch.Tensor]) -> Started | None:
    """Where a backward starts: the leaves' names, and something made of each cotangent."""
    return None if backward is None else (backward.leaves, tuple(take(each.values) for each in backward.cotangents))


def _run(task: Task, function: Callable[..., Any], taken: Mapping[str, Any], started: Started | None = None) -> Eager:
    """The function on these arguments, and the gradients of its outputs where they are asked for."""
    leaves, cotangents = started or ((), ())
    # By all that have a gradient: torch's own kernels crash where it alone is asked for (group norm, channels_last).
    known = [name for name in task.grad if leaves and isinstance(taken[name], torch.Tensor)]
    for name in known:
        taken[name].requires_grad_()
    with _told(function, function.__name__), torch.set_grad_enabled(started is not None):
        result = function(*taken.values())
    returned = () if result is None and task.in_place else result if isinstance(result, (tuple, list)) else (result,)
    for name in task.in_place:
        if any(each is taken[name] for each in returned):
            raise ReferenceFailed(
                f"{function.__name__} returns {name}, which it writes in_place; let it return nothing"
            )
    outputs = (*returned, *(taken[name] for name in task.in_place if taken[name] is not None))
    if not all(isinstance(each, torch.Tensor) for each in outputs):
        raise ReferenceFailed(f"{function.__name__} returned {type(result).__name__}, not tensors")
    if any(each.is_complex() for each in outputs):
        raise ReferenceFailed("complex outputs are not judged; return real and imaginary parts as two outputs")
    if leaves and any(each.numel() for each in outputs) and not any(each.requires_grad for each in outputs):
        raise ReferenceFailed(f"autograd sees no output of {function.__name__} depend on any of grad={known}")
    with _told(function, f"the gradient of {function.__name__}"):
        found = dict(zip(known, vector_jacobian(outputs, [taken[name] for name in known], cotangents), strict=True))
    return Eager((*(each.detach() for each in outputs), *(found[name] for name in leaves)), len(returned))


def vector_jacobian(
    outputs: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The product of cotangents (one per floating-point output) and Jacobian, per leaf; zero where nothing depends."""
    floating = [each for each in outputs if each.is_floating_point()] if leaves else []
    pairs = [each for each in zip(floating, cotangents, strict=bool(leaves)) if each[0].requires_grad]
    if not pairs:
        return [torch.zeros_like(each) for each in leaves]
    found = torch.autograd.grad(
        [output for output, _ in pairs], leaves, [cotangent for _, cotangent in pairs], allow_unused=True
    )
    return [torch.zeros_like(leaf) if each is None else each for leaf, each in zip(leaves, found, strict=True)]


@contextmanager
def _told(function: Callable[..., Any], what: str) -> Iterator[None]:
    """The task's own code: whatever it raises, SystemExit too, is reported as the task's, with its line.

    On a GPU torch's convolutions would multiply in TF32 of themselves.
    """
    rounded = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    except (KeyboardInterrupt, torch.OutOfMemoryError):  # neither is the task's doing
        raise
    except BaseException as error:
        file = getattr(getattr(function, "__code__", None), "co_filename", None)
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        where = f" ({Path(str(file)).name}, line {lines[-1]})" if lines else ""
        raise ReferenceFailed(f"{what} raised {type(error).__name__}: {error}{where}") from error
    finally:
        torch.backends.cudnn.allow_tf32 = rounded


def _double(values: torch.Tensor) -> torch.Tensor:
    return values.double() if values.dtype in LOWER else values.clone()


def _nudged(values: torch.Tensor, unit: float, chance: random.Random) -> torch.Tensor:
    moved = values.to(torch.float64, copy=True)
    nudge(moved, unit, chance)
    return moved


def _shaken(values: torch.Tensor, chance: random.Random) -> torch.Tensor:
    return shake(values, chance) if values.is_floating_point() else values.clone()
