"""An audit: does a task notice kernels that are known to be wrong?

They are made of the task's own reference, which is trusted, and run in this process; they are judged as candidates are.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import torch

from ..options import Settings
from ..oracle.truth import rule_of
from ..task import Task
from .degenerate import degenerates
from .gradients import gradient_kernels
from .judge import Judged, backward_cases, forward_cases, judge, redundant, verdicts
from .mutants import Mutants
from .result import Audit
from .sensitivity import faults
from .whole import whole_mutants


def audit(task: Task, settings: Settings) -> Audit:
    """Grade the task by degenerate kernels, by mutants of its reference, and by filters on its outputs.

    On one thread: most calls are small, and several audits may run at once.
    """
    start = time.perf_counter()
    tolerance = rule_of(task, settings)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        mutants, backward = Mutants(task), Mutants(task)
        whole = (*degenerates(task), *whole_mutants(task))
        parts = (
            judge(task, tolerance, forward_cases(task, settings), whole, mutants),
            judge(task, tolerance, backward_cases(task, settings), gradient_kernels(task), backward),
        )
        filtered = (*faults(task, settings, tolerance), *redundant(parts[0].trials))
    finally:
        torch.set_num_threads(threads)
    return Audit(
        task=task.name,
        tried=tuple(tried for each in parts for tried in verdicts(task, each.trials, mutants.reasons())),
        faults=filtered,
        copy=next((each.copy for each in parts if each.copy), None),
        cases=sum(each.cases for each in parts),
        calls=sum(each.calls for each in parts),
        seconds=time.perf_counter() - start,
        notes=tuple(note for note in _notes(parts, mutants) if note),
    )


def _notes(parts: Iterable[Judged], mutants: Mutants) -> Iterator[str | None]:
    for each in parts:
        yield each.ended
        yield each.left_out
    yield _untraced(mutants)


def _untraced(mutants: Mutants) -> str | None:
    return mutants.untraced and f"no mutants of its graph, which cannot be traced: {mutants.untraced}"
