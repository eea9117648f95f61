"""What a call must do at least: the bytes it must move, and the operations it must make.

Bytes are those of the tensors that go in and come out, each once. Operations are counted on tensors without data, by
torch's own counter, which knows products and convolutions; where it sees none, those that the task declares count.
Bytes that the task declares count instead of those of tensors: of what is gathered only a part is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from ..case import Call
from ..expression import Expression
from ..sandbox.host import OutputSpec
from ..sandbox.turns import Calls, Spec
from ..task import Task


@dataclass(frozen=True, slots=True)
class Work:
    """What one call moves and does: bytes read, bytes written, floating-point operations (`None`: not known)."""

    read: int
    written: int
    flops: int | None


def work_of(task: Task, call: Call, calls: Calls) -> Work:
    """The work of one of these calls; of the backward alone where gradients are due."""
    read = sum(map(_bytes, calls.given))
    if calls.cotangents:
        written = sum(_bytes(each) for each in calls.gradients if each is not None)
    else:
        written = sum(map(_bytes, calls.outputs)) + sum(_bytes(each) for each in calls.given if each.in_place)
    moved = declared(task.bytes, call)
    read = read if moved is None else max(0, moved - written)
    return Work(read, written, counted(task, calls) or declared(task.flops, call))


def declared(text: str | None, call: Call) -> int | None:
    """What the task says of a forward, as an expression over dimensions."""
    return None if text is None or call.grad else Expression(text)(dict(call.dims))


def counted(task: Task, calls: Calls) -> int | None:
    """The operations that torch's counter sees; `None` where the reference cannot run without data."""
    given = [
        torch.empty(each.shape, dtype=each.dtype, device="meta") if isinstance(each, Spec) else each.value
        for each in calls.arguments
    ]
    counter = FlopCounterMode(display=False)
    try:
        if not calls.cotangents:
            with counter:
                task.function(*given)
        else:
            _count_backward(task, calls, given, counter)
    except Exception:  # the task's own code, on tensors that it was not written for
        return None
    return int(counter.get_total_flops())


def _count_backward(task: Task, calls: Calls, given: Sequence[object], counter: FlopCounterMode) -> None:
    leaves = [each for index in calls.leaves if isinstance(each := given[index], torch.Tensor)]
    for each in leaves:
        each.requires_grad_()
    returned = task.function(*given)
    outputs = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    starts = {index: torch.empty(each.shape, dtype=each.dtype, device="meta") for index, each in calls.cotangents}
    with counter:
        torch.autograd.grad([outputs[index] for index in starts], leaves, list(starts.values()), allow_unused=True)


def _bytes(spec: Spec | OutputSpec) -> int:
    return math.prod(spec.shape) * spec.dtype.itemsize
