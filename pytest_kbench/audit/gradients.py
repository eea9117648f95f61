"""Kernels whose outputs are right and whose gradients are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ..oracle.golden import Backward, eager
from ..oracle.inputs import Placed
from ..task import Task
from .degenerate import cut
from .kernel import Answer, Asked, NotHere, Run, Wrong, stateless
from .whole import as_dense

GRADIENT = "Let the gradient of {} differ from it by more than the bound: other values, or a smaller tolerance="
COTANGENT = "Let gradients depend on the cotangent by more than the bound, where outputs have several elements"
CALLS = "Give fuzz= ranges, or several named shapes, so that calls in one process differ"


def gradient_kernels(task: Task) -> Iterator[Wrong]:
    """All of them, for this task; none for one without gradients."""
    if not task.grad:
        return
    for name in task.grad:
        fix = GRADIENT.format(name)
        yield _wrong(f"gradient of {name} zero", "it is zero", _instead(name, _zero), fix)
        yield _wrong(f"gradient of {name} the cotangent", "it is what goes in", _instead(name, _cotangent), fix)
        for other in task.grad:
            if other != name:
                what = f"it is that of {other}"
                yield _wrong(f"gradient of {name} that of {other}", what, _instead(name, _that_of(other)), fix)
    ignored = "gradients are those of the sum of the outputs"
    yield _wrong("cotangent ignored", ignored, stateless(_started(task, _ones)), COTANGENT)
    yield _wrong("gradients doubled", "they accumulate once too often", stateless(_doubled), COTANGENT)
    yield _wrong("previous gradients", "they are those of the call before", _previous, CALLS)
    dense = "the cotangent is read as if its strides were dense"
    start = stateless(_started(task, _dense))
    yield Wrong("mutant", "strides of the cotangent read as dense", dense, start, COTANGENT)


def _wrong(name: str, what: str, start: Callable[[], Run], fix: str) -> Wrong:
    return Wrong("degenerate", name, what, start, fix)


def _backward(asked: Asked) -> Backward:
    if asked.question.backward is None:
        raise NotHere
    return asked.question.backward


def _gradient(asked: Asked, name: str) -> int:
    """Where a leaf's gradient stands among the outputs. Raises `NotHere` where it is not asked for."""
    leaves = _backward(asked).leaves
    if name not in leaves:
        raise NotHere
    return len(asked.right) - len(leaves) + leaves.index(name)


def _instead(name: str, make: Callable[[Asked, Tensor], Tensor]) -> Callable[[], Run]:
    """Right outputs and gradients, but for one leaf."""

    def run(asked: Asked) -> Answer:
        answer, place = list(asked.right), _gradient(asked, name)
        answer[place] = make(asked, answer[place])
        return answer

    return stateless(run)


def _zero(asked: Asked, gradient: Tensor) -> Tensor:
    return torch.zeros_like(gradient)


def _cotangent(asked: Asked, gradient: Tensor) -> Tensor:
    if not _backward(asked).cotangents:
        raise NotHere
    start = _backward(asked).cotangents[0].values
    try:
        return cut(start, gradient.shape).expand(gradient.shape).to(gradient.dtype).clone()
    except RuntimeError:
        raise NotHere from None


def _that_of(other: str) -> Callable[[Asked, Tensor], Tensor]:
    def make(asked: Asked, gradient: Tensor) -> Tensor:
        found = asked.right[_gradient(asked, other)]
        if found.shape != gradient.shape:
            raise NotHere
        return found.to(gradient.dtype)

    return make


def _started(task: Task, make: Callable[[Placed], Tensor]) -> Run:
    """The gradients of another cotangent."""

    def run(asked: Asked) -> Answer:
        backward = _backward(asked)
        moved = tuple(replace(each, values=make(each)) for each in backward.cotangents)
        return eager(task, asked.arguments, replace(backward, cotangents=moved)).outputs

    return run


def _ones(placed: Placed) -> Tensor:
    return torch.ones_like(placed.values)


def _dense(placed: Placed) -> Tensor:
    if not placed.values.dim():
        raise NotHere
    return as_dense(placed)


def _doubled(asked: Asked) -> Answer:
    split = len(asked.right) - len(_backward(asked).leaves)
    return [*asked.right[:split], *(2 * each for each in asked.right[split:])]


def _previous() -> Run:
    """Gradients that are kept from the call before, where they have the same shapes and dtypes."""
    last: list[Tensor] = []

    def run(asked: Asked) -> Answer:
        split = len(asked.right) - len(_backward(asked).leaves)
        gradients = [each.clone() for each in asked.right[split:]]
        fits = [(each.shape, each.dtype) for each in last] == [(each.shape, each.dtype) for each in gradients]
        answer = [*asked.right[:split], *last] if fits else None
        last[:] = gradients
        return answer

    return run
