"""The candidate's side of a backward: leaves before a forward, gradients after it. Runs in the child, like `child`.

A candidate gives gradients by autograd, or by a function `backward(cotangents..., arguments..., forward outputs...)`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(slots=True)
class Forward:
    """One call of the entry point, as long as its outputs are held: what it got and gave, and where that is read."""

    arguments: list[object]
    leaves: Mapping[int, torch.Tensor] = field(default_factory=dict)  # by position, where autograd is asked
    objects: list[object] = field(default_factory=list)
    targets: list[torch.Tensor] = field(default_factory=list)


def with_leaves(arguments: Sequence[object], positions: Sequence[int]) -> tuple[list[object], dict[int, torch.Tensor]]:
    """The arguments, those at these positions as leaves: other objects over the same memory."""
    leaves = {}
    for position in positions:
        tensor = arguments[position]
        assert isinstance(tensor, torch.Tensor)
        leaves[position] = tensor.detach().requires_grad_()
    return [leaves.get(position, each) for position, each in enumerate(arguments)], leaves


def differentiated(
    forward: Forward,
    cotangents: Mapping[int, torch.Tensor],
    backward: str | None,
    again: Callable[[Sequence[object]], list[object]],
) -> list[object]:
    """The gradients of autograd, one per leaf; `None` for one that there is not.

    `cotangents` go by the number of the output. `backward="twice"` adds up two passes, each after a forward of its own
    (`again` makes one; one of other values comes first, in case a backward takes what the last forward left). The
    second one's cotangents are the negatives, and so should its gradients be; those in memory that is used again are
    not. (Autograd's own accumulation may write to the cotangents.) A third forward is differentiated twice: what its
    graph has saved must stay what it was. `"changed"` adds a forward and a backward per argument, which
    changes in place between the two and back after them, and one whose outputs change.
    """
    leaves = list(forward.leaves.values())
    if backward == "twice":
        _with_others(forward.arguments, again)
        first = _product(forward.objects, cotangents, leaves)
        first = _again_over_one_graph(again(forward.arguments), cotangents, leaves, first)
        second = _product(again(forward.arguments), {index: -each for index, each in cotangents.items()}, leaves)
        return [None if a is None or b is None else _half_apart(a, b) for a, b in zip(first, second, strict=True)]
    first = found = _product(forward.objects, cotangents, leaves)
    if backward == "changed":
        for each in _after_changes(forward.arguments, again, lambda objects: _product(objects, cotangents, leaves)):
            found = [_farther(*three) for three in zip(first, found, each, strict=True)]
    return list(found)


def _with_others(arguments: Sequence[object], again: Callable[[Sequence[object]], list[object]]) -> None:
    """A forward of other values, and of other numbers too where the candidate takes these."""
    tensors = [_other(each) for each in arguments]
    numbers = [each / 2 if isinstance(each, float) else each for each in tensors]
    if any(isinstance(each, float) for each in tensors):
        with contextlib.suppress(Exception):
            again(numbers)
            return
    again(tensors)


def _again_over_one_graph(
    objects: Sequence[object],
    cotangents: Mapping[int, torch.Tensor],
    leaves: Sequence[torch.Tensor],
    plain: Sequence[torch.Tensor | None],
) -> Sequence[torch.Tensor | None]:
    """The plain gradients; where two backwards over one graph are not alike, what the second one gives.

    A backward that raises knows that it cannot be made twice, as that of `torch.compile` does at the first.
    """
    with contextlib.suppress(Exception):
        first = _product(objects, cotangents, leaves, keep=True)
        second = _product(objects, cotangents, leaves)
        alike = [
            a is b or (a is not None and b is not None and torch.equal(a, b))
            for a, b in zip(first, second, strict=True)
        ]
        return [known if same else other for known, same, other in zip(plain, alike, second, strict=True)]
    return plain


def _after_changes(
    arguments: Sequence[object],
    again: Callable[[Sequence[object]], list[object]],
    product: Callable[[Sequence[object]], Sequence[torch.Tensor | None]],
) -> Iterator[Sequence[torch.Tensor | None]]:
    """Gradients of one more forward per argument, which changes before the backward, and of one whose outputs do.

    A backward that raises has noticed, which is as good as a right one: that is how autograd tells.
    """
    for changed in [*filter(_changeable, arguments), None]:
        objects = again(arguments)
        tensors = [each for each in objects if _changeable(each)] if changed is None else [changed]
        with contextlib.suppress(Exception):
            _change(tensors)
            try:
                found = product(objects)
            finally:
                _change(tensors)
            yield found


def _farther(first: torch.Tensor | None, found: torch.Tensor | None, other: torch.Tensor | None) -> torch.Tensor | None:
    """Element by element what is farther from the first: all are alike where nothing went wrong. Nothing stays that."""
    if first is None or found is None or other is None:
        return None
    farther = ~((other - first).abs() <= (found - first).abs()) & ~found.isnan()
    return torch.where(farther, other, found)


def _half_apart(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Half of a - b, exactly where b is -a."""
    return ((a.double() - b.double()) / 2).to(a.dtype)


def _product(
    objects: Sequence[object],
    cotangents: Mapping[int, torch.Tensor],
    leaves: Sequence[torch.Tensor],
    *,
    keep: bool = False,
) -> Sequence[torch.Tensor | None]:
    """What autograd makes of the cotangents, per leaf; `None` for a leaf that nothing with a graph depends on.

    The graph is there once more afterwards if it is to be kept.
    """
    return product(started(objects, cotangents) if leaves else None, leaves, keep=keep)


def product(start: Any, leaves: Sequence[torch.Tensor], *, keep: bool = False) -> Sequence[torch.Tensor | None]:
    """What a backward that was `started` gives, per leaf."""
    if start is None:
        return [None] * len(leaves)
    return torch.autograd.grad(start, leaves, allow_unused=True, retain_graph=keep)


class _Start(torch.autograd.Function):
    """A number whose backward hands the cotangents to the outputs.

    `torch.autograd.grad(outputs, leaves, cotangents)` does the same, and imports torch's symbolic shapes for it, which
    takes nearly a second in every child.
    """

    @staticmethod
    def forward(ctx: Any, cotangents: Sequence[torch.Tensor], *outputs: torch.Tensor) -> torch.Tensor:
        ctx.cotangents = cotangents
        return torch.zeros((), dtype=outputs[0].dtype)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        return (None, *ctx.cotangents)


def started(objects: Sequence[object], cotangents: Mapping[int, torch.Tensor]) -> Any:
    """What the backward of all outputs that have a graph starts from; `None` if none has."""
    pairs = [
        (each, cotangents[index])
        for index, each in enumerate(objects)
        if index in cotangents and isinstance(each, torch.Tensor) and each.requires_grad
    ]
    if not pairs:
        return None
    return _Start.apply([start for _, start in pairs], *(output for output, _ in pairs))  # type: ignore[no-untyped-call]


def _changeable(value: Any) -> bool:
    """Whether a value can be changed in place and back: a tensor without two elements in one place."""
    if not isinstance(value, torch.Tensor) or value.dtype == torch.bool:
        return False
    return all(stride or size < 2 for stride, size in zip(value.stride(), value.shape, strict=True))


def _other(value: Any) -> Any:
    """Values of their own that a task may give as well: in another order, floats of another sign and half the size."""
    if not isinstance(value, torch.Tensor) or value.dtype == torch.bool:
        return value
    flipped = value.detach().flip(tuple(range(value.dim())))
    return flipped.mul_(-0.5) if value.is_floating_point() else flipped


def _change(tensors: Sequence[Any]) -> None:
    """Change the tensors in place, as an optimiser may between forward and backward; twice, nothing has changed."""
    with torch.no_grad():
        for each in tensors:
            if each.is_floating_point():
                each.neg_()
            else:
                each.copy_(each.flip(tuple(range(each.dim()))))
