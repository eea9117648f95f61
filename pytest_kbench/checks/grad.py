"""Grad: are the gradients of every declared argument those of the reference, whatever the backward starts from?

The vector-Jacobian product of random, strided and repeated cotangents, in float64 and with its own bound; subsets of
the arguments, two backward passes that accumulate, and inputs that change between forward and backward. The forward is
judged too, with gradients on. Fixed cases, and a search.
"""

from __future__ import annotations

from dataclasses import replace

from ..case import Case, NamedCase
from ..options import Settings
from ..oracle.coverage import gradients
from ..oracle.message import explain_failure
from ..record import GRADIENTS, Reason, Record
from ..sandbox.host import Failure
from ..task import Task
from .bench import Bench
from .examine import examine, without_gradients
from .fuzz import searched
from .gradients import HOW

SEARCH = NamedCase("fuzz", Case(()))  # stands for all that will be drawn


def cases(task: Task, settings: Settings) -> tuple[NamedCase, ...]:
    """All pairs of what varies between calls with a backward, and a search; none for a task without `grad`."""
    return (*gradients(task, settings.kind, settings.seed), SEARCH) if task.grad else ()


def check(bench: Bench, named: NamedCase) -> Record:
    """Judge outputs and gradients of the case's calls, or search. A forward alone is skipped; `require` refuses it."""
    task = bench.task
    calls = tuple(call if call.grad else replace(call, grad=tuple(task.grad)) for call in named.case.calls)
    asked = replace(named, case=Case(calls))
    if not task.grad:
        text = f"{task.name} declares no grad=[...]"
        return Record(task.name, bench.candidate.name, "grad", "failed", Reason.CASE, f"case: {text}", str(named.case))
    if not bench.forward_alone:
        return examine(bench, asked, "grad") if calls or isinstance(bench.child(), Failure) else searched(bench, "grad")
    if GRADIENTS not in task.require:
        return without_gradients(bench, asked, "grad")
    text = explain_failure(Reason.NO_GRADIENT, f"{GRADIENTS} are required by the task: {HOW}")
    return replace(
        without_gradients(bench, asked, "grad"), status="failed", reason=Reason.NO_GRADIENT, message=text, facts={}
    )
