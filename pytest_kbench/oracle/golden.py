"""The truth about one call: the reference in float64, in the working dtype, and in float64 on inputs one ulp away."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..task import Task
from .coverage import derive
from .inputs import Arguments, Placed, laid_out
from .modes import LOWER, Double, Shaking, shake

SHAKES = 2  # one draw may be small by chance where a single element decides: a row with one large value


class ReferenceFailed(Exception):
    """The task's own function raised, or returned no tensors, on a case inside its declaration."""


@dataclass(frozen=True, slots=True)
class Golden:
    """Per output: float64 values (integers as they are), what eager gives, and golden of shaken inputs.

    Eager is the reference in the working dtype on dense inputs or on inputs as they lie, whichever is farther from
    golden, element by element: torch rounds differently where it cannot vectorise.

    `terms` is how many terms the longest sum behind each output may have, 1 where the reference sums nothing; `summed`
    how many the longest sum that was seen has. Outputs are what the function returns, then the arguments that it writes
    in place.
    """

    golden: tuple[torch.Tensor, ...]
    eager: tuple[torch.Tensor, ...]
    shaken: tuple[torch.Tensor, ...]
    terms: tuple[int, ...]
    summed: int


@dataclass(frozen=True, slots=True)
class Eager:
    """What the reference gives in the working dtype: `outputs`, of which the first `returned` are returned."""

    outputs: tuple[torch.Tensor, ...]
    returned: int


def eager(task: Task, arguments: Arguments) -> Eager:
    """Run the reference as it is, on private copies of the arguments. Raises `ReferenceFailed`."""
    copies = _taken(arguments, torch.clone)
    outcome = _run(task, task.function, copies)
    for each in arguments:
        if isinstance(each, Placed) and not each.in_place and not _same(each.values, copies[each.name]):
            raise ReferenceFailed(f'{task.function.__name__} writes {each.name}; declare in_place=["{each.name}"]')
    return outcome


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return torch.equal(a.view(bits), b.view(bits))


def golden(task: Task, arguments: Arguments, dtype: str, seed: int, eager: Eager) -> Golden:
    """Run the reference in float64, and once more shaken, for a case of this dtype. Raises `ReferenceFailed`."""
    truth = task.golden or task.function
    chance = random.Random(derive(seed, "shake"))
    doubled = _taken(arguments, _double)
    with Double():
        exact = _run(task, truth, doubled).outputs
    shaking = Shaking(getattr(torch, dtype), chance)
    moved = [_taken(arguments, functools.partial(_shaken, chance=chance)) for _ in range(SHAKES)]
    with shaking:
        draws = [_run(task, truth, taken).outputs for taken in moved]
    shapes = [[each.shape for each in outputs] for outputs in (eager.outputs, exact, *draws)]
    if any(each != shapes[0] for each in shapes):
        raise ReferenceFailed(f"{truth.__name__} in float64 returns other shapes than {task.function.__name__}")
    shaken = tuple(_farthest(golden, each) for golden, each in zip(exact, zip(*draws, strict=True), strict=True))
    terms = tuple(max(_terms(arguments, each), shaking.terms) if shaking.sums else 1 for each in exact)
    return Golden(exact, _eager_as_they_lie(task, arguments, eager.outputs, exact), shaken, terms, shaking.terms)


def coarser(task: Task, arguments: Arguments, mode: Double) -> tuple[torch.Tensor, ...]:
    """Golden's outputs once more, under a mode that does some of the work less exactly. Raises `ReferenceFailed`."""
    with mode:  # inputs too are made under it, as it may round them
        return _run(task, task.golden or task.function, _taken(arguments, _double)).outputs


def _eager_as_they_lie(
    task: Task, arguments: Arguments, dense: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Eager's outputs, those on strided inputs where they are farther from golden."""
    if all(each.strides == each.values.stride() and not each.offset for each in arguments if isinstance(each, Placed)):
        return tuple(dense)
    taken = {each.name: laid_out(each) if isinstance(each, Placed) else each.value for each in arguments}
    strided = _run(task, task.function, taken).outputs
    return tuple(
        torch.where((b.double() - golden).abs() > (a.double() - golden).abs(), b, a) if a.is_floating_point() else a
        for a, b, golden in zip(dense, strided, exact, strict=True)
    )


def _farthest(exact: torch.Tensor, draws: Sequence[torch.Tensor]) -> torch.Tensor:
    """Golden plus, element by element, the largest distance that any draw has from it."""
    if not exact.is_floating_point():
        return exact
    distances = [(each - exact).abs_() for each in draws]
    return exact + functools.reduce(torch.maximum, distances)


def _terms(arguments: Arguments, output: torch.Tensor) -> int:
    """How many terms the longest sum behind an output may have: a long dimension, or all inputs per output."""
    inputs = [each.values for each in arguments if isinstance(each, Placed)]
    longest = max((extent for each in inputs for extent in each.shape), default=1)
    return max(longest, max((each.numel() for each in inputs), default=1) // max(output.numel(), 1), 1)


def _taken(arguments: Arguments, take: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Any]:
    """What the function gets for each argument: something made of its values, or the plain value."""
    return {each.name: take(each.values) if isinstance(each, Placed) else each.value for each in arguments}


def _run(task: Task, function: Callable[..., Any], taken: Mapping[str, Any]) -> Eager:
    try:
        with torch.no_grad():
            result = function(*taken.values())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the task's own code: whatever it raises, SystemExit too, is reported as the task's
        raise ReferenceFailed(f"{function.__name__} raised {type(error).__name__}: {error}") from error
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
    return Eager(tuple(each.detach() for each in outputs), len(returned))


def _double(values: torch.Tensor) -> torch.Tensor:
    return values.double() if values.dtype in LOWER else values.clone()


def _shaken(values: torch.Tensor, chance: random.Random) -> torch.Tensor:
    return shake(values, chance) if values.is_floating_point() else values.clone()
