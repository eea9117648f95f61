"""Run the calls of a case in one child and judge what came back: structure, contract, then values.

This is where every claim meets evidence. What the child says of its outputs is used only against it; what is believed
are the bytes in the grader's own copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from ..case import Case, CaseError, NamedCase
from ..oracle.compare import compare
from ..oracle.golden import ReferenceFailed
from ..oracle.inputs import Placed, Plain
from ..oracle.message import explain, explain_failure
from ..oracle.tolerance import Tolerance, bound
from ..record import CheckName, Comparison, Reason, Record, Status
from ..sandbox.host import Failure, OutputClaim, Returned
from ..task import Task
from .bench import Bench, Prepared, Stages


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with an answer (or with getting one): reason, text, and the numbers behind it."""

    reason: Reason
    message: str
    status: Status = "failed"
    comparisons: tuple[Comparison, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


def examine(bench: Bench, named: NamedCase, check: CheckName) -> Record:
    """Grade one case of a check."""
    stages = Stages()
    found = _run(bench, named.case, stages)
    record = Record(
        bench.task.name,
        bench.candidate.name,
        check,
        "passed",
        case=str(named.case),
        seconds=dict(stages),
        comparisons=found.comparisons,
    )
    if isinstance(found, Passed):
        return record
    return replace(record, status=found.status, reason=found.reason, message=found.message, facts=found.facts)


@dataclass(frozen=True, slots=True)
class Passed:
    """Every call of the case kept the contract and the bound."""

    comparisons: tuple[Comparison, ...]


def _run(bench: Bench, case: Case, stages: Stages) -> Passed | Finding:
    earlier: list[tuple[Prepared, Returned]] = []
    comparisons: list[Comparison] = []
    try:
        for index, call in enumerate(case.calls):
            prepared = bench.prepare(call, stages)
            returned = bench.call(prepared, hold=index)
            if isinstance(returned, Failure):
                return _refusal(bench, prepared, returned) or _failed(bench, prepared, returned)
            for stage, seconds in returned.seconds.items():
                stages[stage] = stages.get(stage, 0.0) + seconds
            with stages.timed("compare"):
                finding = _judge(bench, prepared, returned)
            if isinstance(finding, Finding):
                return _in_call(finding, index, case)
            comparisons += finding
            earlier.append((prepared, returned))
        with stages.timed("reread"):
            return _still_right(bench, earlier) or Passed(tuple(comparisons))
    except (CaseError, ReferenceFailed) as error:
        return Finding(Reason.TASK, f"task: {bench.task.name} cannot be graded on this case: {error}")
    finally:
        bench.release()


def _judge(bench: Bench, prepared: Prepared, returned: Returned) -> list[Comparison] | Finding:
    task, truth = bench.task, prepared.truth
    if problem := _structure(task, prepared, returned.claims):
        return Finding(Reason.STRUCTURE, explain_failure(Reason.STRUCTURE, problem, _inputs(prepared)))
    for reason, names, what in (
        (Reason.OUT_OF_BOUNDS, returned.overran, "memory beside {} was written"),
        (Reason.INPUTS_CHANGED, returned.changed, "{} was written; the task does not declare it in_place"),
        (
            Reason.ALIASING,
            [name for claim in returned.claims for name in claim.aliases],
            "an output shares memory with {}",
        ),
    ):
        if names:
            return Finding(reason, explain_failure(reason, what.format(", ".join(names)), _inputs(prepared)))
    written = [returned.in_place[name] for name in task.in_place if name in returned.in_place]
    actual = [each for each in (*returned.outputs, *written) if each is not None]
    rule = _tolerance(bench)
    made = zip(truth.golden, truth.eager, truth.shaken, truth.terms, strict=True)
    bounds = [bound(golden, eager, shaken, rule, terms=terms) for golden, eager, shaken, terms in made]
    comparisons = [
        compare(each, golden, allowed, output=index)
        for index, (each, golden, allowed) in enumerate(zip(actual, truth.golden, bounds, strict=True))
    ]
    if all(each.ok for each in comparisons):
        return comparisons
    reason = (
        Reason.WRONG
        if any(each.wrong for each in comparisons) or not any(each.nonfinite for each in comparisons)
        else Reason.NONFINITE
    )
    shapes = [tuple(each.shape) for each in truth.eager]
    text = explain(comparisons, shapes=shapes, dtypes=[_name(each.dtype) for each in truth.eager])
    return Finding(reason, f"{text}\n{_inputs(prepared)}", comparisons=tuple(comparisons))


def _structure(task: Task, prepared: Prepared, claims: Sequence[OutputClaim]) -> str | None:
    expected = prepared.truth.eager[: prepared.truth.returned]
    if len(claims) != len(expected):
        return f"{len(claims)} outputs came back, {len(expected)} are due"
    for index, (claim, want) in enumerate(zip(claims, expected, strict=True)):
        name = f"output {index}" if len(expected) > 1 else "the output"
        dtype = _name(want.dtype)
        if claim.kind != "tensor":
            return f"{name} is a {claim.kind}, not a tensor"
        if claim.shape != tuple(want.shape):
            return f"{name} has shape {claim.shape}, not {tuple(want.shape)}"
        if claim.dtype != dtype:
            return f"{name} is {claim.dtype}, not {dtype}"
        if claim.device != want.device.type:
            return f"{name} is on {claim.device}, not on {want.device.type}"
        if claim.callables:
            return f"{name} carries callables: {', '.join(claim.callables)}"
        if claim.strides is None or not _separate(claim.shape, claim.strides):
            return f"{name} overlaps itself (strides {claim.strides}): every element needs memory of its own"
        if (
            task.strides == "dense"
            and want.numel()
            and claim.strides != tuple(torch.empty(claim.shape, device="meta").stride())
        ):
            return f"{name} has strides {claim.strides}; the task promises a dense output"
    return None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _separate(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether no two elements share memory: sorted by stride, each dimension steps over all that lies inside it."""
    reach = 0
    for stride, extent in sorted(
        (abs(stride), extent) for stride, extent in zip(strides, shape, strict=True) if extent > 1
    ):
        if stride <= reach:
            return False
        reach += stride * (extent - 1)
    return True


def _still_right(bench: Bench, earlier: Sequence[tuple[Prepared, Returned]]) -> Finding | None:
    if len(earlier) < 2:
        return None
    child = bench.child()
    if isinstance(child, Failure):
        return _failed(bench, earlier[-1][0], child)
    for index, (prepared, returned) in enumerate(earlier[:-1]):
        again = child.reread(index, seconds=bench.settings.timeout)
        if isinstance(again, Failure):
            return _failed(bench, prepared, again)
        for before, after in zip(returned.outputs, again, strict=True):
            if before is None or after is None or not torch.equal(_bits(before), _bits(after)):
                what = f"the output of call {index + 1} changed during a later call; it must stay what it was"
                return Finding(Reason.OUTPUTS_CHANGED, explain_failure(Reason.OUTPUTS_CHANGED, what, _inputs(prepared)))
    return None


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


def _failed(bench: Bench, prepared: Prepared, failure: Failure) -> Finding:
    if failure.reason in (Reason.COMPILE, Reason.LOAD, Reason.BINDING, Reason.DEVICE):
        return Finding(failure.reason, explain_failure(failure.reason, failure.message, failure.detail))
    detail = f"{failure.detail}\n{_inputs(prepared)}".strip("\n")
    return Finding(failure.reason, explain_failure(failure.reason, failure.message, detail))


def _refusal(bench: Bench, prepared: Prepared, failure: Failure) -> Finding | None:
    """Whether an exception is a clean refusal: of a layout or of a dtype (skipped), or of a shape or value (failed)."""
    if failure.reason is not Reason.RAISED:
        return None
    task, call = bench.task, prepared.call
    refused: str | None = None
    if call.layouts:
        dense = replace(call, layouts=())
        if isinstance(bench.call(bench.prepare(dense), hold=0), Returned):
            refused = call.layouts[0][1]
    if refused is None and not bench.takes(call.dtype):
        if not any(bench.takes(dtype) for dtype in task.dtypes):
            return None  # it never works: that is no refusal
        refused = call.dtype
    if refused is not None and refused not in task.require:
        return Finding(
            Reason.UNSUPPORTED, f"does not take {refused}: {failure.message}", "skipped", facts={"refuses": refused}
        )
    what = f"{refused} is required by the task" if refused else "it refused a shape or value inside the declared ranges"
    return Finding(
        Reason.UNSUPPORTED,
        explain_failure(Reason.UNSUPPORTED, f"{what}: {failure.message}", f"{failure.detail}\n{_inputs(prepared)}"),
    )


def _tolerance(bench: Bench) -> Tolerance:
    if bench.settings.tolerance is not None:
        return Tolerance(fixed=bench.settings.tolerance)
    match bench.task.tolerance:
        case None:
            return Tolerance()
        case Mapping() as parts:
            return Tolerance(**parts)
        case fixed:
            return Tolerance(fixed=float(fixed))


def _in_call(finding: Finding, index: int, case: Case) -> Finding:
    if len(case.calls) == 1:
        return finding
    return replace(finding, message=f"{finding.message}\nin call {index + 1} of {len(case.calls)}")


def _inputs(prepared: Prepared) -> str:
    """The arguments, one line each."""
    layouts, plans = dict(prepared.call.layouts), dict(prepared.call.plans)
    lines = []
    for each in prepared.arguments:
        if isinstance(each, Plain):
            lines.append(f"{each.name} = {each.value!r}")
        else:
            lines.append(_described(each, layouts.get(each.name, "dense"), plans.get(each.name, "")))
    return "\n".join(lines)


def _described(each: Placed, layout: str, plan: str) -> str:
    values = each.values
    text = f"{each.name}: {tuple(values.shape)} {_name(values.dtype)} {layout} {plan}".rstrip()
    finite = values[values.isfinite()].double() if values.is_floating_point() else values
    return f"{text}, from {finite.min().item():.4g} to {finite.max().item():.4g}" if finite.numel() else text
