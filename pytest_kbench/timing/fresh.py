"""New values for every timed call, as quickly as memory is copied.

A few sets of arguments are drawn by the oracle. Each call gets one of them, rolled by a random number of elements and
scaled by a random number a little below one, so that no element is what it was in any earlier call: whoever remembers
answers, by address, by shape or by content, remembers wrong ones. Only elements that are drawn independently may be
rolled, and only floats in a range that holds zero scaled; what is made together, or has a structure, is one of the
sets as it is.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from ..argument import Param, Tensor
from ..oracle.inputs import Arguments, Placed
from ..task import Task
from ..values import Constant, Distribution, Integers, Masks, Uniform

SETS: Final = 3
LEAST_SCALE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Values:
    """What one tensor of one call holds: a set, an offset to begin at, and a factor."""

    index: int
    offset: int
    scale: float


Draw = tuple[Values, ...]  # of one call, per tensor


class Fresh:
    """Draws the values of calls, and writes them. `sets` are arguments of the same task, shapes and dtype."""

    def __init__(self, task: Task, sets: Sequence[Arguments], cotangents: Sequence[Sequence[Placed]] = ()) -> None:
        declared = {each.name: each for each in task.tensors}
        tensors = [[each for each in arguments if isinstance(each, Placed)] for arguments in sets]
        if cotangents:
            tensors = [[*given, *starts] for given, starts in zip(tensors, cotangents, strict=True)]
        self._flat = [[each.values.reshape(-1) for each in given] for given in tensors]
        self._kinds = [_kind(declared.get(each.name), task) for each in tensors[0]]

    def draw(self, chance: random.Random) -> Draw:
        """The values of one call. Sets that are made together stay together."""
        together = chance.randrange(len(self._flat))
        drawn = []
        for position, (rolls, scales) in enumerate(self._kinds):
            count = self._flat[0][position].numel()
            offset = chance.randrange(count) if rolls and count > 1 else 0
            index = chance.randrange(len(self._flat)) if rolls else together
            drawn.append(Values(index, offset, chance.uniform(LEAST_SCALE, 1.0) if scales else 1.0))
        return tuple(drawn)

    def write(self, drawn: Draw, into: Sequence[torch.Tensor]) -> None:
        """Put the values of a call where it will find them; the tensors are dense."""
        for position, (values, target) in enumerate(zip(drawn, into, strict=True)):
            source, flat = self._flat[values.index][position], target.view(-1)
            split = flat.numel() - values.offset
            for part, given in ((flat[:split], source[values.offset :]), (flat[split:], source[: values.offset])):
                if values.scale == 1.0:
                    part.copy_(given)
                elif part.numel():
                    torch.mul(given, values.scale, out=part)


def _kind(declared: Tensor | Param | None, task: Task) -> tuple[bool, bool]:
    """Whether elements of an argument may change places, and whether they may shrink. Cotangents are not declared."""
    if declared is None:
        return True, True
    if task.inputs is not None:
        return False, False
    plans: Mapping[str, Distribution] = declared.states if isinstance(declared, Param) else {}
    given: list[object] = list(plans.values()) if plans else [getattr(declared, "values", None)]
    if any(isinstance(each, Masks) for each in given):
        return False, False
    if any(isinstance(each, (Constant, Integers)) for each in given) or (declared.dtype or "float32") not in _FLOATS:
        return True, False
    return True, all(not isinstance(each, Uniform) or each.low <= 0.0 <= each.high for each in given)


_FLOATS: Final = ("float64", "float32", "float16", "bfloat16")
