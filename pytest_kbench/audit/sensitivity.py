"""Filters on a task's own outputs, after robust-kbench: do they vary, and does every input and parameter matter?

What is asked of plain calls alone (dense, normal values, the first dtype): a task whose outputs vary only under special
value plans is no task. A filter speaks where a thing holds in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import torch
from torch import Tensor

from ..argument import Param, Scalar
from ..case import Call, CaseError
from ..options import Settings
from ..oracle.coverage import derive, elements
from ..oracle.golden import ReferenceFailed, coarser
from ..oracle.inputs import Arguments, InputsFailed, Placed, draw
from ..oracle.modes import Double
from ..oracle.tolerance import Bound, Tolerance
from ..oracle.truth import answer, ask
from ..task import Task
from .result import Fault

SMALL = 0.01  # outputs that all lie within it are taken for zero at a tolerance of 1e-2 (METR, KernelBench Filtered)
RELATIVE = 1e-3  # of the largest output: what varies by less is nearly constant
SEEDS = 4  # draws of each call
MOST = 1 << 16  # elements of a call
CALLS = 3

Outputs = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Plain:
    """A plain call in one initial state: its arguments, what golden gives for several draws, the bound of the first."""

    call: Call
    arguments: Arguments
    golden: tuple[Outputs, ...]
    bounds: tuple[Bound, ...]


def faults(task: Task, settings: Settings, tolerance: Tolerance) -> Iterator[Fault]:
    """What the filters find. Calls for which the reference fails are left to the cases, which tell of them."""
    by_state = {state: list(_plain(task, settings, tolerance, state)) for state in task.states or (None,)}
    plain = [each for found in by_state.values() for each in found]
    if not plain:
        return
    for output in range(len(plain[0].bounds)):
        name = "the output" if len(plain[0].bounds) == 1 else f"output {output}"
        yield from _range(plain, output, name)
        yield from _seeds(plain, output, name)
        yield from _axes(plain, output, name)
    yield from _inputs(task, plain)
    yield from _neutral(task, plain)
    yield from _states(task, by_state)


def _plain(task: Task, settings: Settings, tolerance: Tolerance, state: str | None) -> Iterator[Plain]:
    """A small, a middle and a larger named shape, with all arguments there."""
    names = [name for name in task.graded_shapes(settings.kind) if all(task.shapes[name].values())]
    names = sorted(names, key=lambda name: elements(task, name))
    names = [name for name in names if elements(task, name) <= MOST] or names[:1]
    chosen = names if len(names) <= CALLS else [names[0], names[len(names) // 2], names[-1]]
    scalars = tuple((each.name, each.choices[0]) for each in task.arguments if isinstance(each, Scalar))
    for name in chosen:
        seed = derive(settings.seed, task.name, "sensitivity", name)
        call = Call(tuple(task.shapes[name].items()), task.dtypes[0], state, scalars, seed=seed)
        try:
            question = ask(task, call)
            truth = answer(task, call, question, tolerance)
            others = [draw(task, replace(call, seed=derive(seed, index))) for index in range(1, SEEDS)]
            golden = (truth.golden, *(coarser(task, each, Double()) for each in others))
        except (CaseError, InputsFailed, ReferenceFailed):
            continue
        if any(each.numel() for each in truth.golden):
            yield Plain(call, question.arguments, golden, truth.bounds)


def _range(plain: Sequence[Plain], output: int, name: str) -> Iterator[Fault]:
    draws = [each[output] for call in plain for each in call.golden]
    if not all(each.is_floating_point() for each in draws):
        return
    largest = max(_largest(each) for each in draws)
    if largest < SMALL:
        what = f"{name} is nearly nothing: {largest:.2g} is its largest value in {len(draws)} draws"
        yield Fault("range", what, "Scale it, or reduce over fewer elements: zeros are near it by any usual tolerance")


def _seeds(plain: Sequence[Plain], output: int, name: str) -> Iterator[Fault]:
    for call in plain:
        first, *others = (each[output] for each in call.golden)
        if any(not _alike(first, each, _slack(call, output)) for each in others):
            return
    what = f"{name} is the same for every seed, in {len(plain)} calls of {SEEDS} draws each"
    yield Fault("seeds", what, "Let the reference depend on its inputs: as it is, a constant answers it")


def _axes(plain: Sequence[Plain], output: int, name: str) -> Iterator[Fault]:
    ranks = {call.golden[0][output].dim() for call in plain}
    for axis in range(min(ranks)):
        telling = [call for call in plain if call.golden[0][output].shape[axis] > 1 and call.golden[0][output].numel()]
        if telling and all(_constant_along(call.golden[0][output], axis, _slack(call, output)) for call in telling):
            what = f"{name} is constant along its dimension {axis}, in {len(telling)} calls"
            yield Fault(
                "axes", what, "Compute it once per index of the others, or let it vary: most of it says nothing"
            )


def _inputs(task: Task, plain: Sequence[Plain]) -> Iterator[Fault]:
    for declared in task.tensors:
        name = declared.name
        having = [
            call for call in plain if any(each.name == name and isinstance(each, Placed) for each in call.arguments)
        ]
        if having and not any(_matters(task, call, name) for call in having):
            what = (
                f"{name} has no impact: other values of it leave every output within the bound, in {len(having)} calls"
            )
            yield Fault("inputs", what, f"Let the reference use {name}, at a scale that shows, or leave it out")


def _matters(task: Task, call: Plain, name: str) -> bool:
    """Whether other values of one argument move an output beyond its bound."""
    other = {each.name: each for each in draw(task, replace(call.call, seed=derive(call.call.seed, "another")))}
    changed: list[object] = []
    for each in call.arguments:
        if each.name == name and isinstance(each, Placed):
            values = getattr(other[name], "values", each.values)
            changed.append(replace(each, values=_others(values) if torch.equal(values, each.values) else values))
        else:
            changed.append(each)
    try:
        moved = coarser(task, tuple(changed), Double())  # type: ignore[arg-type]  # arguments, as they were
    except ReferenceFailed:
        return True  # it cannot do without it
    return not all(
        _alike(a, b, bound.elementwise) for a, b, bound in zip(call.golden[0], moved, call.bounds, strict=True)
    )


def _others(values: Tensor) -> Tensor:
    """Other values for what is drawn alike for every seed: a constant, a mask."""
    if values.is_floating_point():
        return (values.double() * 1.5 + 0.25).to(values.dtype)
    return values.logical_not() if values.dtype == torch.bool else values.reshape(-1).roll(1).reshape(values.shape)


def _neutral(task: Task, plain: Sequence[Plain]) -> Iterator[Fault]:
    """Parameters that are one everywhere, or zero, in all of their initial states."""
    for declared in task.tensors:
        if not isinstance(declared, Param):
            continue
        found = [
            each.values
            for call in plain
            for each in call.arguments
            if isinstance(each, Placed) and each.name == declared.name
        ]
        for value, word in ((1, "one"), (0, "zero")):
            if found and all(bool((each == value).all()) for each in found):
                what = (
                    f"{declared.name} is {word} everywhere, in all of its initial states: who skips it is not noticed"
                )
                yield Fault(
                    "neutral", what, f'Give {declared.name} a state that matters: init={{"spread": uniform(0.5, 2.0)}}'
                )


def _states(task: Task, by_state: Mapping[str | None, Sequence[Plain]]) -> Iterator[Fault]:
    """Initial states of the same parameter between which no output differs by more than the bound."""
    parameters = [each for each in task.tensors if isinstance(each, Param)]
    for (one, first), (two, second) in combinations(by_state.items(), 2):
        if not any({one, two} <= set(each.states) for each in parameters):
            continue
        pairs = [(a, b) for a in first for b in second if a.call.dims == b.call.dims]
        if pairs and all(
            _alike(x, y, bound.elementwise)
            for a, b in pairs
            for x, y, bound in zip(a.golden[0], b.golden[0], a.bounds, strict=True)
        ):
            what = f"the initial states {one} and {two} give the same outputs, in {len(pairs)} calls"
            yield Fault("states", what, "Let them differ by more than the bound, or keep one of them")


def _slack(call: Plain, output: int) -> Tensor:
    """What counts as no difference: the bound, or a small part of the largest value."""
    golden = call.golden[0][output]
    return call.bounds[output].elementwise.clamp(min=RELATIVE * _largest(golden) if golden.is_floating_point() else 0.0)


def _alike(a: Tensor, b: Tensor, slack: Tensor) -> bool:
    """Whether no element differs by more than the slack; NaN is like NaN."""
    if a.shape != b.shape:
        return False
    near = (a.double() - b.double()).abs() <= slack
    return bool((near | (a == b) | ((a != a) & (b != b))).all())


def _constant_along(values: Tensor, axis: int, slack: Tensor) -> bool:
    first = values.narrow(axis, 0, 1).expand(values.shape)
    return _alike(values, first, slack)


def _largest(values: Tensor) -> float:
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
