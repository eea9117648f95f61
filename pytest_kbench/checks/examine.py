"""Run the calls of a case in one child and judge what came back: structure, contract, then values.

This is where every claim meets evidence. What the child says of its outputs is used only against it; what is believed
are the bytes in the grader's own copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from ..case import COTANGENT, Call, Case, CaseError, NamedCase
from ..options import CheckName
from ..oracle.bits import same_bits
from ..oracle.compare import compare
from ..oracle.golden import ReferenceFailed
from ..oracle.inputs import InputsFailed, Placed, Plain, TooLarge
from ..oracle.message import explain, explain_failure
from ..oracle.truth import Question
from ..record import GRADIENTS, Comparison, Reason, Record, Status
from ..sandbox.host import Failure, Gradients, OutputClaim, Returned
from ..task import Task
from .bench import Answer, Bench, Stages
from .gradients import HOW, IN_BACKWARD, NOTHING, signature


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with an answer (or with getting one): reason, text, and the numbers behind it."""

    reason: Reason
    message: str
    status: Status = "failed"
    comparisons: tuple[Comparison, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    case: Case | None = None  # the one that was graded, if it is not the one that was asked for
    call: int | None = None  # which of several calls it was


def examine(bench: Bench, named: NamedCase, check: CheckName) -> Record:
    """Grade one case of a check."""
    stages = Stages()
    with stages.timed("total"):
        found = run(bench, named.case, stages)
    if isinstance(found, Finding) and found.call is not None and found.case is None and found.status == "failed":
        found = replace(found, case=Case(named.case.calls[: found.call + 1]))  # what comes after takes no part
    return recorded(bench, named, check, stages, found)


def recorded(bench: Bench, named: NamedCase, check: CheckName, stages: Stages, found: Passed | Finding) -> Record:
    """The record of a case that passed or in which something was found."""
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
    told = replace(record, status=found.status, reason=found.reason, message=found.message, facts=found.facts)
    return told if found.case is None else replace(told, case=str(found.case))


def without_gradients(bench: Bench, named: NamedCase, check: CheckName) -> Record:
    """The record of a case with a backward, for a candidate that gives no gradients at all."""
    record = Record(bench.task.name, bench.candidate.name, check, "skipped", case=str(named.case) or None)
    text = f"a forward alone: {HOW}"
    return replace(record, reason=Reason.UNSUPPORTED, message=text, facts={"refuses": GRADIENTS})


@dataclass(frozen=True, slots=True)
class Passed:
    """Every call of the case kept the contract and the bound."""

    comparisons: tuple[Comparison, ...]
    answers: tuple[Answer, ...]


Right = tuple[Sequence[torch.Tensor], list[Comparison]]
Judged = dict[Call, Right]


def run(
    bench: Bench, case: Case, stages: Stages, judged: Judged | None = None, *, reread: bool = True
) -> Passed | Finding:
    """Make the calls of a case in one child, and judge each answer; at the end `reread` all earlier ones.

    `judged` are right answers to these calls, from earlier runs too: one that is the same bit for bit is not compared.
    """
    judged = {} if judged is None else judged
    answers: list[Answer] = []
    comparisons: list[Comparison] = []
    try:
        for index, call in enumerate(case.calls):
            answer = bench.call(call, hold=index if reread else 0, stages=stages)
            if isinstance(answer.returned, Failure):
                failed = _refusal(bench, answer, answer.returned) or _failed(bench.task, answer, answer.returned)
                return _in_call(failed, index, case)
            for stage, seconds in answer.returned.seconds.items():
                stages[stage] = stages.get(stage, 0.0) + seconds
            with stages.timed("compare"):
                found = _judge(bench.task, answer, answer.returned, judged.get(call))
            if isinstance(found, Finding):
                return _in_call(found, index, case)
            judged[call] = outputs_of(bench.task, answer.returned), found
            comparisons += found
            answers.append(answer)
        changed = _still_right(bench, answers) if reread else None
        return changed or Passed(tuple(comparisons), tuple(answers))
    except CaseError as error:
        return Finding(Reason.CASE, f"case: {error}")
    except TooLarge as error:
        return Finding(Reason.MEMORY, f"memory: {error}", "skipped")
    except (InputsFailed, ReferenceFailed) as error:
        return Finding(Reason.TASK, f"task: {bench.task.name} cannot be graded on this case: {error}")
    finally:
        bench.release()


def _judge(task: Task, answer: Answer, returned: Returned, known: Right | None = None) -> list[Comparison] | Finding:
    for reason, problem in _breaches(task, answer, returned):
        return Finding(reason, explain_failure(reason, problem, _inputs(answer)))
    truth, eager = answer.truth, answer.question.eager.outputs
    actual = outputs_of(task, returned)
    if known is not None and returned.gradients is None and all(map(same_bits, actual, known[0])):
        return known[1]
    actual += gradients_of(answer, returned)
    judged = zip(actual, truth.golden[: len(actual)], truth.bounds[: len(actual)], strict=True)
    comparisons = [compare(each, golden, allowed, output=index) for index, (each, golden, allowed) in enumerate(judged)]
    eager = eager[: len(actual)]
    if all(each.ok for each in comparisons):
        return comparisons
    strange = any(each.nonfinite for each in comparisons) and not any(each.wrong for each in comparisons)
    shapes = [tuple(each.shape) for each in eager]
    text = explain(
        comparisons, shapes=shapes, dtypes=[_name(each.dtype) for each in eager], names=_names_of(answer, len(eager))
    )
    reason = Reason.NONFINITE if strange else Reason.WRONG
    return Finding(reason, f"{text}\n{_inputs(answer)}", comparisons=tuple(comparisons))


def gradients_of(answer: Answer, returned: Returned) -> list[torch.Tensor]:
    """The gradients to be judged; where none is needed, and none came, zeros."""
    given = returned.gradients
    if given is None:
        return []
    wanted = answer.question.eager.outputs[answer.question.eager.returned :]
    return [torch.zeros_like(want) if each is None else each for each, want in zip(given.values, wanted, strict=True)]


def _names_of(answer: Answer, count: int) -> list[str]:
    """What messages call the outputs and gradients of an answer; nothing where numbers do."""
    backward, plain = answer.question.backward, answer.question.eager
    if backward is None:
        return []
    outputs = ["the output"] if plain.returned == 1 else [f"output {index}" for index in range(plain.returned)]
    return [*outputs, *(f"gradient of {name}" for name in backward.leaves)][:count]


def _breaches(task: Task, answer: Answer, returned: Returned) -> Iterator[tuple[Reason, str]]:
    """What an answer breaks of the contract, before its values are looked at."""
    if problem := _structure(task, answer.question.eager.outputs[: len(returned.outputs)], returned.claims):
        yield Reason.STRUCTURE, problem
    if any(each is None for each in returned.outputs):
        yield Reason.PROTOCOL, "an output was announced that did not come"
    if returned.gradients is not None:
        yield from _gradient_breaches(answer.question, returned.gradients)
    if returned.overran:
        yield Reason.OUT_OF_BOUNDS, f"memory beside {', '.join(returned.overran)} was written"
    if returned.changed:
        yield (
            Reason.INPUTS_CHANGED,
            f"{', '.join(returned.changed)} was written, which the task does not declare in_place",
        )
    if returned.gradients is not None and returned.gradients.rewritten:
        yield Reason.OUTPUTS_CHANGED, "the backward changed an output of the forward"
    if shared := {name for claim in returned.claims for name in claim.aliases} - set(task.in_place):
        yield Reason.ALIASING, f"an output shares memory with {', '.join(sorted(shared))}"


def _gradient_breaches(question: Question, given: Gradients) -> Iterator[tuple[Reason, str]]:
    """What gradients break of the contract; one that is zero everywhere may be absent."""
    assert question.backward is not None
    if given.extra:
        due = f"{len(given.names)} are due ({', '.join(given.names)})"
        yield Reason.STRUCTURE, f"{given.extra} gradients more came back than the task declares; {due}"
    wanted = question.eager.outputs[question.eager.returned :]
    for name, claim, value, want in zip(given.names, given.claims, given.values, wanted, strict=True):
        what, dtype = f"the gradient of {name}", _name(want.dtype)
        if claim is None or claim.kind == NOTHING:
            if bool(want.any()):
                yield Reason.NO_GRADIENT, f"{what} is missing"
        elif claim.kind != "tensor":
            yield Reason.STRUCTURE, f"{what} is a {claim.kind}, not a tensor"
        elif claim.shape != tuple(want.shape):
            yield Reason.STRUCTURE, f"{what} has shape {claim.shape}, not {tuple(want.shape)}"
        elif claim.dtype != dtype:
            yield Reason.STRUCTURE, f"{what} is {claim.dtype}, not {dtype}"
        elif claim.device != str(want.device):
            yield Reason.STRUCTURE, f"{what} is on {claim.device}, not on {want.device}"
        elif value is None:
            yield Reason.PROTOCOL, f"{what} was announced and did not come"


def _structure(task: Task, expected: Sequence[torch.Tensor], claims: Sequence[OutputClaim]) -> str | None:
    if not expected:
        return None  # an in-place operator whose reference returns nothing: what comes back has no meaning
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
        if claim.device != str(want.device):
            return f"{name} is on {claim.device}, not on {want.device}"
        if claim.callables:
            return f"{name} carries callables: {', '.join(claim.callables)}"
        if claim.strides is None or not _separate(claim.shape, claim.strides):
            return f"{name} overlaps itself (strides {claim.strides}): every element needs memory of its own"
        if task.strides == "dense" and want.numel() and not _dense(claim.shape, claim.strides):
            return f"{name} has strides {claim.strides}; the task promises a dense output"
    return None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the last dimension is innermost, without gaps; dimensions of one element have no say."""
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def _separate(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether no two elements share memory: sorted by stride, each dimension steps over all that lies inside it."""
    if 0 in shape:
        return True
    reach = 0
    for stride, extent in sorted(
        (abs(stride), extent) for stride, extent in zip(strides, shape, strict=True) if extent > 1
    ):
        if stride <= reach:
            return False
        reach += stride * (extent - 1)
    return True


def _still_right(bench: Bench, answers: Sequence[Answer]) -> Finding | None:
    """Read the outputs of all calls but the last again: they must be what they were."""
    for index, answer in enumerate(answers[:-1]):
        child = bench.child()
        again = child if isinstance(child, Failure) else child.reread(index, seconds=bench.settings.timeout)
        if isinstance(again, Failure):
            return _failed(bench.task, answer, again)
        assert isinstance(answer.returned, Returned)
        for before, after in zip(answer.returned.outputs, again, strict=True):
            if before is None or after is None or not same_bits(before, after):
                what = f"the output of call {index + 1} changed during a later call; it must stay what it was"
                return Finding(Reason.OUTPUTS_CHANGED, explain_failure(Reason.OUTPUTS_CHANGED, what, _inputs(answer)))
    return None


def outputs_of(task: Task, returned: Returned) -> list[torch.Tensor]:
    """What is judged of an answer, in the order of golden: what was returned, then what was written in place."""
    written = (returned.in_place[name] for name in task.in_place if name in returned.in_place)
    return [each for each in (*returned.outputs, *written) if each is not None]


def _failed(task: Task, answer: Answer, failure: Failure) -> Finding:
    built = failure.reason not in (Reason.COMPILE, Reason.LOAD, Reason.BINDING, Reason.DEVICE)
    detail = f"{failure.detail}\n{_inputs(answer)}".strip("\n") if built else failure.detail
    if failure.reason is Reason.RAISED and failure.message.startswith(IN_BACKWARD):
        detail = f"a function of its own is called as {signature(task, answer.question)}\n{detail}"
    status: Status = "skipped" if failure.reason is Reason.DEVICE else "failed"
    return Finding(failure.reason, explain_failure(failure.reason, failure.message, detail), status)


def _refusal(bench: Bench, answer: Answer, failure: Failure) -> Finding | None:
    """What an exception means: a clean refusal of a layout or dtype (skipped), or of a shape or value (failed).

    What is refused is graded all the same, in the layout and dtype that the candidate takes: a refusal must not hide
    the shapes and values that the case would have covered. `None` when it is no refusal, because nothing ever works.
    """
    if failure.reason is not Reason.RAISED:
        return None
    if failure.message.startswith(IN_BACKWARD) and not bench.differentiates:
        return None  # no backward ever works: that is no refusal
    task, call = bench.task, answer.call
    layouts = sorted({layout for _, layout in call.layouts})
    for refused, instead in (
        (layouts, replace(call, layouts=())),
        ([call.dtype], _in_another_dtype(bench, call)),
        ([call.dtype, *layouts], _in_another_dtype(bench, replace(call, layouts=()))),
    ):
        if instead is None or instead == call:
            continue
        again = bench.call(instead, hold=0)
        if isinstance(again.returned, Returned):
            return _refused(task, refused, failure, again, again.returned)
    if not any(bench.takes(dtype) for dtype in task.dtypes):
        return None
    text = f"it refused a shape or value inside the declared ranges: {failure.message}"
    detail = f"{failure.detail}\n{_inputs(answer)}".strip("\n")
    return Finding(Reason.UNSUPPORTED, explain_failure(Reason.UNSUPPORTED, text, detail))


def _in_another_dtype(bench: Bench, call: Call) -> Call | None:
    """The call in a dtype that the candidate takes, if it does not take this one."""
    if bench.takes(call.dtype):
        return None
    return next((replace(call, dtype=each) for each in bench.task.dtypes if bench.takes(each)), None)


def _refused(task: Task, refused: Sequence[str], failure: Failure, answer: Answer, returned: Returned) -> Finding:
    found = _judge(task, answer, returned)
    if isinstance(found, Finding):
        text = f"{found.message}\nin the case graded instead of one that it refused ({', '.join(refused)})"
        return replace(found, message=text, case=Case((answer.call,)))
    required = [each for each in refused if each in task.require]
    if required:
        text = f"{', '.join(required)} is required by the task: {failure.message}"
        return Finding(Reason.UNSUPPORTED, explain_failure(Reason.UNSUPPORTED, text, failure.detail))
    text = f"does not take {', '.join(refused)}: {failure.message}"
    return Finding(Reason.UNSUPPORTED, text, "skipped", comparisons=tuple(found), facts={"refuses": ",".join(refused)})


def _in_call(finding: Finding, index: int, case: Case) -> Finding:
    if len(case.calls) == 1:
        return finding
    return replace(finding, message=f"{finding.message}\nin call {index + 1} of {len(case.calls)}", call=index)


def _inputs(answer: Answer) -> str:
    """The arguments, one line each."""
    layouts, plans = dict(answer.call.layouts), dict(answer.call.plans)
    lines = []
    backward = answer.question.backward
    for each in (*answer.question.arguments, *(() if backward is None else backward.cotangents)):
        if isinstance(each, Plain):
            lines.append(f"{each.name} = {each.value!r}")
        else:
            kind = COTANGENT if each.name.startswith(f"{COTANGENT} ") else each.name
            lines.append(_described(each, layouts.get(kind, "dense"), plans.get(kind, "")))
    return "\n".join(lines)


def _described(each: Placed, layout: str, plan: str) -> str:
    values = each.values
    text = f"{each.name}: {tuple(values.shape)} {_name(values.dtype)} {layout} {plan}".rstrip()
    finite = values[values.isfinite()].double() if values.is_floating_point() else values
    return f"{text}, from {finite.min().item():.4g} to {finite.max().item():.4g}" if finite.numel() else text
