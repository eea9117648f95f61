"""Run the calls of a case in one child, judge each answer, and say what that means for the candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..case import Call, Case, CaseError, NamedCase
from ..options import CheckName
from ..oracle.bits import same_bits
from ..oracle.golden import NOW_AND_THEN, ReferenceFailed
from ..oracle.inputs import InputsFailed, TooLarge
from ..oracle.message import explain_failure
from ..record import EXCUSED, GRADIENTS, Comparison, Reason, Record, Status
from ..sandbox.host import Failure, Returned, SandboxError
from ..task import Task
from .bench import Answer, Bench, Stages
from .control import Control
from .gradients import HOW, IN_BACKWARD, signature
from .judge import Finding, Right, described, judge, outputs_of


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


Judged = dict[Call, Right]
FEW_EXCUSES = 5  # cases of a candidate in which its reference may be wrong too, however few they all are


def run(
    bench: Bench, case: Case, stages: Stages, judged: Judged | None = None, *, reread: bool = True
) -> Passed | Finding:
    """Make the calls of a case in one child, and judge each answer; at the end `reread` all earlier ones.

    `judged` are right answers to these calls, from earlier runs too: one that is the same bit for bit is not compared.
    """
    judged = {} if judged is None else judged
    bench.cases += 1
    answers: list[Answer] = []
    comparisons: list[Comparison] = []
    try:
        for index, call in enumerate(case.calls):
            answer = bench.call(call, hold=index if reread else 0, stages=stages)
            if isinstance(answer.returned, Failure):
                failed = _refusal(bench, answer, answer.returned) or _failed(bench.task, answer, answer.returned)
                return _excused(bench, failed, case, index) or _in_call(failed, index, case)
            for stage, seconds in answer.returned.seconds.items():
                stages[stage] = stages.get(stage, 0.0) + seconds
            with stages.timed("compare"):
                found = judge(bench.task, answer, answer.returned, judged.get(call))
            if isinstance(found, Finding):
                return _excused(bench, found, case, index) or _in_call(found, index, case)
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
                return Finding(Reason.OUTPUTS_CHANGED, explain_failure(Reason.OUTPUTS_CHANGED, what, described(answer)))
    return None


def _failed(task: Task, answer: Answer, failure: Failure) -> Finding:
    built = failure.reason not in (Reason.COMPILE, Reason.LOAD, Reason.BINDING, Reason.DEVICE)
    detail = f"{failure.detail}\n{described(answer)}".strip("\n") if built else failure.detail
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
    detail = f"{failure.detail}\n{described(answer)}".strip("\n")
    return Finding(Reason.UNSUPPORTED, explain_failure(Reason.UNSUPPORTED, text, detail))


def _in_another_dtype(bench: Bench, call: Call) -> Call | None:
    """The call in a dtype that the candidate takes, if it does not take this one."""
    if bench.takes(call.dtype):
        return None
    return next((replace(call, dtype=each) for each in bench.task.dtypes if bench.takes(each)), None)


def _refused(task: Task, refused: Sequence[str], failure: Failure, answer: Answer, returned: Returned) -> Finding:
    found = judge(task, answer, returned)
    if isinstance(found, Finding):
        text = f"{found.message}\nin the case graded instead of one that it refused ({', '.join(refused)})"
        return replace(found, message=text, case=Case((answer.call,)))
    required = [each for each in refused if each in task.require]
    if required:
        text = f"{', '.join(required)} is required by the task: {failure.message}"
        return Finding(Reason.UNSUPPORTED, explain_failure(Reason.UNSUPPORTED, text, failure.detail))
    text = f"does not take {', '.join(refused)}: {failure.message}"
    return Finding(Reason.UNSUPPORTED, text, "skipped", comparisons=tuple(found), facts={"refuses": ",".join(refused)})


def _excused(bench: Bench, found: Finding, case: Case, index: int) -> Finding | None:
    """What is said instead of wrong values that the reference gives too when it is the candidate."""
    if found.status != "failed" or found.reason not in (Reason.WRONG, Reason.NONFINITE):
        return None
    try:
        if bench.control is None:
            bench.control = Control.beside(bench)
        wrong = bench.control.wrong(bench, case.calls[: index + 1] if found.case is None else found.case.calls)
    except (TooLarge, CaseError, InputsFailed, ReferenceFailed, SandboxError):
        return None  # what goes wrong with the control excuses nobody
    if wrong is None:
        return None
    bench.excused += 1
    if bench.excused > max(FEW_EXCUSES, NOW_AND_THEN * bench.cases):
        told = f"{bench.task.name} is wrong itself in {bench.excused} of {bench.cases} cases, when it is the candidate"
        return Finding(Reason.TASK, explain_failure(Reason.TASK, told, wrong.message))
    told = f"{bench.task.name} is wrong here itself, on this machine, when it is the candidate: nobody is judged"
    return Finding(Reason.TASK, explain_failure(Reason.TASK, told, wrong.message), "skipped", facts={EXCUSED: "1"})


def _in_call(finding: Finding, index: int, case: Case) -> Finding:
    if len(case.calls) == 1:
        return finding
    return replace(finding, message=f"{finding.message}\nin call {index + 1} of {len(case.calls)}", call=index)
