"""The candidate's side of a turn: several calls in a row, each between two readings of the child's own clock.

What is read here is a claim: the candidate lives in this process and can change the clock, and all of this file. The
grader has clocks of its own around the whole turn, and looks at every output after it has stopped the process.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from .gradients import Forward, product, started, with_leaves

_M_PERTURB, _M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -6, -1, -2, -3  # malloc.h
_ALWAYS, _PAD, _MOST_KEPT = (1 << 31) - 1, 64 << 20, 32 << 20  # bytes; malloc takes no larger threshold than the last

Function = Callable[..., object]


@dataclass(slots=True)
class Rehearsed:
    """A call to be made again and again: its arguments lie in memory whose values the grader changes.

    `targets` are outputs to fill, `cotangents` what its backward starts from by the number of the output, and
    `gradients` what that fills, if it has one; `leaves` are positions of arguments.
    """

    arguments: list[object]
    targets: list[torch.Tensor | None]
    cotangents: Mapping[int, torch.Tensor] = field(default_factory=dict)
    gradients: list[torch.Tensor | None] = field(default_factory=list)
    leaves: Sequence[int] = ()
    forward: Forward | None = None
    kept: list[torch.Tensor] = field(default_factory=list)  # what came back last, until the grader has read it


def quiet_allocator() -> None:
    """Let malloc hand out memory as it is: filling it, which finds unwritten outputs, would be timed too.

    And let it keep what it got. Left alone, it decides by what was freed before whether a block of 100 KiB or more is
    given back to the system, and fetched again in the next call: of two processes with the same program one did, and
    was up to a fifth slower for all of its life.
    """
    libc = ctypes.CDLL(None)
    for option, value in (
        (_M_PERTURB, 0), (_M_TRIM_THRESHOLD, _ALWAYS), (_M_TOP_PAD, _PAD), (_M_MMAP_THRESHOLD, _MOST_KEPT)
    ):  # fmt: skip
        libc.mallopt(option, value)


Timed = tuple[list[int], list[list[int]]]  # nanoseconds of each call, and the addresses of what it gave


def forwards(function: Function, calls: Sequence[Rehearsed], *, fills: bool) -> Timed:
    """Make the calls, for their outputs alone."""
    return _timed(calls, [(function, (*each.arguments, *(each.targets if fills else ()))) for each in calls], fills)


def before_backwards(function: Function, calls: Sequence[Rehearsed], *, fills: bool, autograd: bool) -> Timed:
    """Make the calls, and keep what their backwards need. No clock is read."""
    for each in calls:
        given, leaves = with_leaves(each.arguments, each.leaves if autograd else ())
        returned = function(*given, *(each.targets if fills else ()))
        objects = each.targets if fills else list(returned) if isinstance(returned, (tuple, list)) else [returned]
        each.forward = Forward(given, leaves, list(objects))
    return [], []


def backwards(own: Function | None, calls: Sequence[Rehearsed], *, fills: bool) -> Timed:
    """Make the backwards of calls that were made: the candidate's `own`, or autograd's."""
    made = []
    for each in calls:
        forward = each.forward
        assert forward is not None, "the forwards come first"
        if own is not None:
            given = (*each.cotangents.values(), *forward.arguments, *forward.objects)
            made.append((own, (*given, *(each.gradients if fills else ()))))
        else:
            leaves = list(forward.leaves.values())
            made.append((product, (started(forward.objects, each.cotangents), leaves)))
        each.forward = None
    return _timed(calls, made, fills)


def _timed(calls: Sequence[Rehearsed], made: Sequence[tuple[Function, Sequence[object]]], fills: bool) -> Timed:
    """An output that is not what lies in memory, a transposed or negated view, is made so within its call's time."""
    clock = time.perf_counter_ns
    taken = []
    with uncollected():
        for call, (function, given) in zip(calls, made, strict=True):
            begun = clock()
            returned = function(*given)
            if fills:
                taken.append(clock() - begun)
                continue
            listed = returned if isinstance(returned, (tuple, list)) else (returned,)
            call.kept = [each.resolve_neg().contiguous() for each in listed if isinstance(each, torch.Tensor)]
            taken.append(clock() - begun)
    return taken, [[each.data_ptr() for each in call.kept] for call in calls]


@contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's garbage collector, which would count to somebody's call, or end a capture."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
