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
from .examine import examine
from .fuzz import searched

SEARCH = NamedCase("fuzz", Case(()))  # stands for all that will be drawn


def cases(task: Task, settings: Settings) -> tuple[NamedCase, ...]:
    """All pairs of what varies between calls with a backward, and a search; none for a task without `grad`."""
    return (*gradients(task, settings.device, settings.seed), SEARCH) if task.grad else ()


def check(bench: Bench, named: NamedCase) -> Record:
    """Judge outputs and gradients of the case's calls, or search. A forward alone is skipped; `require` refuses it."""
    task = bench.task
    calls = tuple(call if call.grad else replace(call, grad=tuple(task.grad)) for call in named.case.calls)
    asked = replace(named, case=Case(calls))
    if not task.grad:
        text = f"{task.name} declares no grad=[...]"
        return Record(task.name, bench.candidate.name, "grad", "failed", Reason.CASE, f"case: {text}", str(named.case))
    child = bench.child()
    if isinstance(child, Failure) or bench.gives_gradients:
        return examine(bench, asked, "grad") if calls or isinstance(child, Failure) else searched(bench, "grad")
    return _without(bench, asked)


def _without(bench: Bench, named: NamedCase) -> Record:
    """The record of a candidate that gives no gradients at all."""
    made = Record(bench.task.name, bench.candidate.name, "grad", "skipped", case=str(named.case) or None)
    how = "write backward(cotangents..., arguments..., outputs...), or let autograd see what the forward does"
    if GRADIENTS in bench.task.require:
        text = f"{GRADIENTS} are required by the task: {how}"
        return replace(
            made, status="failed", reason=Reason.NO_GRADIENT, message=explain_failure(Reason.NO_GRADIENT, text)
        )
    return replace(made, reason=Reason.UNSUPPORTED, message=f"a forward alone: {how}", facts={"refuses": GRADIENTS})
