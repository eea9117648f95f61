"""The reference once more, in the working dtype, on arguments that were changed: most wrong kernels are made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from ..oracle.golden import eager
from ..oracle.inputs import Placed, Plain
from ..task import Task
from .kernel import Asked


def rerun(task: Task, asked: Asked, changed: Mapping[str, Any]) -> Sequence[Tensor]:
    """What the reference gives where these arguments have other values. Raises `ReferenceFailed`."""
    arguments = tuple(_with(each, changed[each.name]) if each.name in changed else each for each in asked.arguments)
    return eager(task, arguments, asked.question.backward).outputs


def _with(argument: Placed | Plain, value: Any) -> Placed | Plain:
    return replace(argument, values=value) if isinstance(argument, Placed) else replace(argument, value=value)
