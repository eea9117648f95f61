"""Precision: is a candidate's error that of a coarser precision than the task declares?

The bound alone does not tell: over long sums it is wide, because honest orders of summation differ. But an error as
large as that of TF32 products, where eager's is a hundred times smaller, has one explanation.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import takewhile

import torch

from ..case import Call, Case, CaseError
from ..oracle.coverage import derive, repeats
from ..oracle.golden import ReferenceFailed, coarser
from ..oracle.inputs import InputsFailed, TooLarge
from ..oracle.message import explain_failure
from ..oracle.precision import DOWNGRADES, allowed, like_rounding, relative_error
from ..record import Reason, Record
from ..sandbox.host import Failure, Returned
from ..task import Task
from .bench import Answer, Bench
from .judge import outputs_of

CALLS = 3  # that must all say the same
APART = 8.0  # times eager's error: how coarse a precision must be to be told from eager
LIKE = (0.5, 3.0)  # of a precision's error: what is as coarse as that
WORSE = 4.0  # times eager's error: what is not eager's own precision


def downgrade(bench: Bench, calls: tuple[Call, ...] | None = None) -> Record | None:
    """A failed record that names the precision and its factor; `None` where nothing of that kind shows.

    `calls`, all of one dtype, are those to look at; without them, plain ones in every dtype.
    """
    for each in _plain(bench) if calls is None else [calls]:
        if (record := _downgrade(bench, each)) is not None:
            return record
    return None


def _downgrade(bench: Bench, calls: tuple[Call, ...]) -> Record | None:
    if bench.task.fast_math or calls[0].dtype not in DOWNGRADES:
        return None
    bench.renew()  # what the search left in the process has no say in it
    found = [each for each in takewhile(bool, (_like(bench, call) for call in calls)) if each is not None]
    if not found or len(found) < len(calls) or len({name for name, _ in found}) > 1:
        return None
    name, factor = found[0][0], math.exp(sum(math.log(each) for _, each in found) / len(found))
    dtype, of = calls[0].dtype, f"{len(calls)} of {len(calls)} calls"
    text = f"the error of {name} in a {dtype} task: {factor:.3g} times eager's, in {of}"
    message = explain_failure(Reason.PRECISION, text)
    facts = {"precision": f"{name}, {factor:.3g} times eager's error"}
    task, candidate, case = bench.task.name, bench.candidate.name, str(Case(calls[:1]))
    return Record(task, candidate, "fuzz", "failed", Reason.PRECISION, message, case, facts=facts)


def _plain(bench: Bench) -> list[tuple[Call, ...]]:
    """Per dtype some calls of the determinism check's shape, with values that this run alone has."""
    task, settings = bench.task, bench.settings
    return [
        tuple(replace(call, seed=derive(call.seed, "precision", index)) for index in range(CALLS))
        for named in repeats(task, settings.kind, settings.seed)
        for call in named.case.calls
    ]


def _like(bench: Bench, call: Call) -> tuple[str, float] | None:
    """The precision that explains the error of one call, and how many times eager's error that is."""
    try:
        answer = bench.call(call, hold=0)
        return None if isinstance(answer.returned, Failure) else _explained(bench.task, answer, answer.returned)
    except (CaseError, InputsFailed, ReferenceFailed, TooLarge):
        return None  # the search tells of it
    finally:
        bench.release()


def _explained(task: Task, answer: Answer, returned: Returned) -> tuple[str, float] | None:
    golden, eager = answer.truth.golden, answer.question.eager.outputs
    outputs = outputs_of(task, returned)
    if any(a.shape != b.shape for a, b in zip(outputs, golden, strict=False)) or len(outputs) != len(golden):
        return None
    seen = relative_error(outputs, golden)
    least = max(relative_error(eager, golden), torch.finfo(getattr(torch, answer.call.dtype)).eps / 4)
    mode, fine = allowed(task, answer.call.seed), least
    if mode is not None:
        fine = max(fine, relative_error(coarser(task, answer.question.arguments, mode), golden))
    if seen < WORSE * fine:
        return None
    alike: dict[str, float] = {}
    for each in DOWNGRADES[answer.call.dtype]:
        coarse = coarser(task, answer.question.arguments, each.mode())
        error = relative_error(coarse, golden)
        if error >= APART * fine and LIKE[0] <= seen / error <= LIKE[1] and like_rounding(outputs, coarse, golden):
            alike[each.name] = abs(math.log(seen / error))
    return (min(alike, key=alike.__getitem__), seen / least) if alike else None
