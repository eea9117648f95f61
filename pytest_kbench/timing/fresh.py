"""New values for every timed call, nearly as quickly as memory is copied.

A few sets of arguments are drawn by the oracle. A tensor of a call is a mixture of two of them, each rolled by a random
number of elements, with random weights: no element is what it was in any earlier call, and few numbers do not say what
all of them are. Whoever remembers answers, by address, by shape or by content, remembers wrong ones. Elements that are
drawn independently may be rolled, and floats mixed. Tensors that are made together, or have a structure, are drawn anew
for every call, which takes longer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch

from ..argument import Param, Tensor
from ..oracle.inputs import Arguments, Placed
from ..task import Task
from ..values import Constant, Integers, Masks, Normal

SETS: Final = 3
WEIGHTS: Final = (0.55, 0.85)  # of the first set in a mixture

Kind = Literal["drawn", "rolled", "summed", "between"]


@dataclass(frozen=True, slots=True)
class Values:
    """What one tensor of one call holds: two sets, where each begins, and their weights; or values of its own."""

    sets: tuple[int, int] = (0, 0)
    offsets: tuple[int, int] = (0, 0)
    weights: tuple[float, float] = (1.0, 0.0)
    own: torch.Tensor | None = None


Draw = tuple[Values, ...]  # of one call, per tensor


class Fresh:
    """Draws the values of calls, and writes them. `sets` are arguments of the same task, shapes and dtype.

    `anew` draws another set, by a seed, for tensors that have a structure.
    """

    def __init__(
        self,
        task: Task,
        sets: Sequence[Arguments],
        anew: Callable[[int], Arguments],
        cotangents: Sequence[Sequence[Placed]] = (),
    ) -> None:
        declared = {each.name: each for each in task.tensors}
        tensors = [[each for each in arguments if isinstance(each, Placed)] for arguments in sets]
        if cotangents:
            tensors = [[*given, *starts] for given, starts in zip(tensors, cotangents, strict=True)]
        self._flat = [[each.values.reshape(-1) for each in given] for given in tensors]
        self._kinds = [_kind(declared.get(each.name), task) for each in tensors[0]]
        self._anew = anew

    def draw(self, chance: random.Random) -> Draw:
        """The values of one call. Tensors that are made together stay together."""
        own: list[torch.Tensor] = []
        if "drawn" in self._kinds:
            arguments = self._anew(chance.randrange(1 << 48))
            own = [each.values.reshape(-1) for each in arguments if isinstance(each, Placed)]
        return tuple(
            Values(own=own[position]) if kind == "drawn" else self._mixed(kind, position, chance)
            for position, kind in enumerate(self._kinds)
        )

    def _mixed(self, kind: Kind, position: int, chance: random.Random) -> Values:
        count = max(self._flat[0][position].numel(), 1)
        pair = (chance.randrange(len(self._flat)), chance.randrange(len(self._flat)))
        offsets = (chance.randrange(count), chance.randrange(count))
        return Values(pair, offsets, _weights(kind, chance))

    def fill(self, count: int, chance: random.Random, into: Sequence[torch.Tensor]) -> None:
        """Draw the values of so many calls, and put them where they will be found: one flat tensor per call in each.

        As `draw` and `write`, but that all of these calls are made of the same two sets.
        """
        own = [self.draw(chance) for _ in range(count)] if "drawn" in self._kinds else []
        for position, (kind, rows) in enumerate(zip(self._kinds, into, strict=True)):
            targets = list(rows[:count].unbind())
            if kind == "drawn":
                torch._foreach_copy_(targets, [_own(each[position]) for each in own])
            elif rows.shape[1]:
                self._mix(position, kind, targets, chance)

    def _mix(self, position: int, kind: Kind, targets: list[torch.Tensor], chance: random.Random) -> None:
        """Mixtures of two sets: each rolled, and weighted, by numbers of its own."""
        one, other = (self._rolls(position, len(targets), chance) for _ in range(2))
        weights = [_weights(kind, chance) for _ in targets]
        if weights[0][1] == 0.0:
            torch._foreach_copy_(targets, one)
            return
        torch._foreach_copy_(targets, other)
        torch._foreach_mul_(targets, [second / first for first, second in weights])
        torch._foreach_add_(targets, one)
        torch._foreach_mul_(targets, [first for first, _ in weights])

    def _rolls(self, position: int, count: int, chance: random.Random) -> list[torch.Tensor]:
        """So many views of a set, each rolled by a random number of elements."""
        flat = chance.choice(self._flat)[position]
        twice = torch.cat([flat, flat])
        starts = (chance.randrange(flat.numel()) for _ in range(count))
        return [twice[start : start + flat.numel()] for start in starts]

    def write(self, drawn: Draw, into: Sequence[torch.Tensor], first: int = 0) -> None:
        """Put the values of a call where it will find them, from the `first` tensor on; the tensors are dense."""
        for position, (values, target) in list(enumerate(zip(drawn, into, strict=True)))[first:]:
            self._put(position, values, target.view(-1))

    def _put(self, position: int, values: Values, flat: torch.Tensor) -> None:
        if values.own is not None:
            flat.copy_(values.own)
            return
        for index, offset, weight, added in zip(
            values.sets, values.offsets, values.weights, (False, True), strict=True
        ):
            if weight != 0.0:
                _roll(self._flat[index][position], offset, weight, flat, added=added)


def _weights(kind: Kind, chance: random.Random) -> tuple[float, float]:
    """Of both sets in a mixture."""
    first = chance.uniform(*WEIGHTS)
    match kind:
        case "summed":  # of independent values: the spread stays what it is
            return first, math.sqrt(1.0 - first * first)
        case "between":  # in a range: each value stays in it
            return first, 1.0 - first
        case _:
            return 1.0, 0.0


def _own(values: Values) -> torch.Tensor:
    assert values.own is not None
    return values.own


def _roll(source: torch.Tensor, offset: int, weight: float, target: torch.Tensor, *, added: bool) -> None:
    """Write, or add, a flat tensor that begins at an element of another, times a weight."""
    split = target.numel() - offset
    for part, given in ((target[:split], source[offset:]), (target[split:], source[:offset])):
        if added:
            part.add_(given, alpha=weight)
        elif weight == 1.0:
            part.copy_(given)
        elif part.numel():
            torch.mul(given, weight, out=part)


def _kind(declared: Tensor | Param | None, task: Task) -> Kind:
    """What may be made of an argument's sets. Cotangents, which are normal, are not declared."""
    if declared is None:
        return "summed"
    given: list[object] = [getattr(declared, "values", None)]
    if isinstance(declared, Param):
        given = list(declared.states.values())
    if task.inputs is not None or any(isinstance(each, Masks) for each in given):
        return "drawn"
    if any(isinstance(each, (Constant, Integers)) for each in given) or (declared.dtype or "float32") not in _FLOATS:
        return "rolled"
    centred = all(each is None or (isinstance(each, Normal) and each.mean == 0.0) for each in given)
    return "summed" if centred else "between"


_FLOATS: Final = ("float64", "float32", "float16", "bfloat16")
