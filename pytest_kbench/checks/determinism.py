"""Determinism: does the same call, made again, give the same bits? Is it right with any number of threads?

Sums in an order that threads decide are honest, so a difference is told with its size; it fails only where the task
says `deterministic=True`. So with gradients, where the task has any. Where the task names a dimension as
`batch_invariant`, one index of it alone must give the bits that it gives in the batch.
"""

from __future__ import annotations

from ..case import NamedCase
from ..options import Settings
from ..oracle.coverage import batches, repeats
from ..record import Record
from ..task import Task
from .bench import Bench
from .examine import without_gradients
from .repeats import examine_batch, examine_repeats


def cases(task: Task, settings: Settings) -> tuple[NamedCase, ...]:
    """Per dtype one plain call of a large shape, one with a backward, and some indices alone where the task asks."""
    given = task, settings.kind, settings.seed
    return (*repeats(*given), *(repeats(*given, task.grad) if task.grad else ()), *batches(*given))


def check(bench: Bench, named: NamedCase) -> Record:
    """Make each call several times, or each index alone and in the batch, and compare the outputs bit by bit."""
    if any(call.grad for call in named.case.calls) and bench.forward_alone:
        return without_gradients(bench, named, "determinism")
    alone = any(call.only for call in named.case.calls)
    return examine_batch(bench, named, "determinism") if alone else examine_repeats(bench, named, "determinism")
