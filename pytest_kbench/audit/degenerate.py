"""Kernels that compute nothing, or not from what they are given: no task may take one of them for right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ..argument import FLOATS, Param
from ..oracle.inputs import Placed, draw
from ..oracle.strategies import SEEDS
from ..task import Task
from .kernel import Answer, Asked, NotHere, Run, Wrong, stateless
from .rerun import rerun

SCALE, SHIFT = 1.01, 0.01  # how an input is perturbed

OUTPUTS = "Make outputs differ from each other by more than the bound: other inputs, shapes or a smaller tolerance="
INPUT = "Let the reference, and the values of its inputs, depend on {name} by more than the bound"
STATE = "Give {name} an initial state that is far from its neutral value"


def degenerates(task: Task) -> Iterator[Wrong]:
    """All of them, for this task."""
    yield _wrong("zeros", "every output is zero", stateless(_each(torch.zeros_like)), OUTPUTS)
    yield _wrong("constant", "every output is its own mean, everywhere", stateless(_golden(_mean, several=0)), OUTPUTS)
    yield _wrong("mean of each row", "every row is its own mean", stateless(_golden(_row_mean, several=1)), OUTPUTS)
    yield _wrong("another input", "the outputs for other inputs", stateless(_another(task)), OUTPUTS)
    yield _wrong("previous output", "the outputs of the call before", _previous, OUTPUTS)
    for each in task.tensors:
        name, fix = each.name, INPUT.format(name=each.name)
        floating = (each.dtype or "float32") in FLOATS
        yield _wrong(f"input {name}", f"{name} is returned as it is", stateless(_as_output(name)), OUTPUTS)
        yield _wrong(f"{name} ignored", f"{name} is taken to be zero", _changed(task, name, torch.zeros_like), fix)
        if floating:
            yield _wrong(
                f"{name} averaged", f"{name} is taken to be its mean everywhere", _changed(task, name, _mean), fix
            )
            yield _wrong(f"{name} perturbed", f"{name} * {SCALE} + {SHIFT}", _changed(task, name, _moved), fix)
        if isinstance(each, Param) and floating:
            fix = STATE.format(name=name)
            yield _wrong(
                f"{name} neutral", f"{name} is taken to be one everywhere", _changed(task, name, torch.ones_like), fix
            )


def _wrong(name: str, what: str, start: Callable[[], Run], fix: str) -> Wrong:
    return Wrong("degenerate", name, what, start, fix)


def _each(make: Callable[[Tensor], Tensor]) -> Run:
    """Something made of what the reference gives."""
    return lambda asked: [make(each) for each in asked.right]


def _golden(make: Callable[[Tensor], Tensor], *, several: int) -> Run:
    """Something made of golden, in the dtype of the output, where that has several elements (1: in a row)."""

    def run(asked: Asked) -> Answer:
        if all(
            (each.shape[-1] if several and each.dim() else each.numel() if not several else 1) < 2
            for each in asked.right
        ):
            raise NotHere
        pairs = zip(asked.truth.golden, asked.right, strict=True)
        return [make(golden).to(right.dtype) for golden, right in pairs]

    return run


def _mean(values: Tensor) -> Tensor:
    if not values.numel():
        return values.clone()
    wide = values.double()
    return wide.mean().expand(values.shape).to(values.dtype).clone()


def _row_mean(values: Tensor) -> Tensor:
    if not values.numel() or not values.dim():
        return values.clone()
    return values.double().mean(-1, keepdim=True).expand(values.shape).to(values.dtype).clone()


def _moved(values: Tensor) -> Tensor:
    return (values.double() * SCALE + SHIFT).to(values.dtype)


def _changed(task: Task, name: str, make: Callable[[Tensor], Tensor]) -> Callable[[], Run]:
    """The reference with one argument replaced."""

    def run(asked: Asked) -> Answer:
        return rerun(task, asked, {name: make(asked.values(name))})

    return stateless(run)


def _as_output(name: str) -> Run:
    """An input in the place of every output: as it is, broadcast, or its first elements along every dimension."""

    def run(asked: Asked) -> Answer:
        values = asked.values(name)
        try:
            return [cut(values, each.shape).expand(each.shape).to(each.dtype).clone() for each in asked.right]
        except RuntimeError:
            raise NotHere from None

    return run


def cut(values: Tensor, size: torch.Size) -> Tensor:
    """The first elements along every dimension, where there are as many; else all, to be broadcast."""
    if values.dim() != len(size) or any(have < want for have, want in zip(values.shape, size, strict=True)):
        return values
    return values[tuple(slice(0, extent) for extent in size)]


def _another(task: Task) -> Run:
    """The reference on inputs of another seed; parameters are the same."""
    inputs = [each.name for each in task.tensors if not isinstance(each, Param)]

    def run(asked: Asked) -> Answer:
        other = draw(task, replace(asked.call, seed=(asked.call.seed + 1) % SEEDS))
        drawn = {each.name: each.values for each in other if isinstance(each, Placed) and each.name in inputs}
        return rerun(task, asked, drawn)

    return run


def _previous() -> Run:
    """What the call before gave, where it had the same shapes and dtypes."""
    last: list[Tensor] = []

    def run(asked: Asked) -> Answer:
        right = [each.clone() for each in asked.right]
        fits = [(each.shape, each.dtype) for each in last] == [(each.shape, each.dtype) for each in right]
        answer = list(last) if fits else None
        last[:] = right
        return answer

    return run
