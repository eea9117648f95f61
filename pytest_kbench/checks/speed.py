"""Speed: how fast is the candidate against the reference, by paired turns in children of their own?

What is timed is judged too: every output of every timed call is looked at, some are graded in full, and the candidate's
own clock must agree with the grader's. How fast it must be is not said here.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from ..case import Call, CaseError, NamedCase
from ..options import Settings
from ..oracle.compare import compare
from ..oracle.coverage import derive, swept, timed
from ..oracle.golden import Backward, ReferenceFailed, eager
from ..oracle.inputs import InputsFailed, Placed, TooLarge
from ..oracle.message import explain, explain_failure
from ..oracle.truth import Question, Truth, answer, ask, rule_of, widest
from ..record import EAGER, MISSING, SWEPT, Reason, Record, Status, Timing
from ..sandbox.host import Child, Failure
from ..task import Task
from ..timing.arms import ArmFailed, Kept
from ..timing.paired import Paired
from ..timing.roofline import work_of
from ..timing.witness import Wrong
from .bench import Bench, Stages
from .control import is_right
from .examine import recorded, without_gradients
from .judge import Finding
from .timekeeper import AnyArms, Timekeeper

ASKED_OF_A_BASELINE = 4  # calls, before a candidate that differs from it is accused
HIDDEN = 0.05  # of its time: what a candidate may seem to hide before it is called a lie
MOST_SAMPLES = 400


def cases(task: Task, settings: Settings) -> tuple[NamedCase, ...]:
    """The plain call of every shape that the task times on this device, its backward where the task says so; sweeps."""
    given = task, settings.kind, settings.seed
    return (*timed(*given), *swept(*given, settings.shapes))


def check(bench: Bench, named: NamedCase) -> Record:
    """Compare the candidate with the reference."""
    call = replace(named.case.calls[-1], layouts=(), backward=None, only=())
    if call.grad and bench.forward_alone:
        return without_gradients(bench, named, "speed")
    stages = Stages()
    keeper = bench.timekeeper
    assert keeper is not None, "a grader lends it"
    with stages.timed("total"), keeper.lock.alone():
        found = _timed(bench, call, keeper)
    if isinstance(found, Finding):
        record = recorded(bench, named, "speed", stages, found)
        return replace(record, facts={**record.facts, **size_of(named)})
    told = [each.told if each.baseline == EAGER else f"against {each.baseline}: {each.told}" for each in found.timings]
    record = Record(bench.task.name, bench.candidate.name, "speed", "passed", case=str(named.case))
    message = "; ".join([*told, *(f"not against {name}: {why}" for name, why in found.missing.items())])
    facts = size_of(named) | ({MISSING: ",".join(found.missing)} if found.missing else {})
    return replace(record, timings=found.timings, seconds=dict(stages), message=message, facts=facts)


def size_of(named: NamedCase) -> dict[str, str]:
    """The fact of which size of a sweep a case is."""
    return {SWEPT: named.id.partition(":")[0]} if "=" in named.id else {}


@dataclass(frozen=True, slots=True)
class Compared:
    """A candidate's comparison with eager, and with the other baselines; why one is `missing`, by its name."""

    timings: tuple[Timing, ...]
    missing: Mapping[str, str]


def _timed(bench: Bench, call: Call, keeper: Timekeeper) -> Compared | Finding:
    """The comparisons, or what is wrong with the candidate. A baseline that cannot be timed is left out."""
    bench.stand_aside()
    if (problem := _prepared(bench, call, keeper)) is not None:
        return problem
    candidate = bench.timed_children(keeper)
    if isinstance(candidate, Failure):
        return _failed(candidate, "")
    timings: list[Timing] = []
    missing: dict[str, str] = {}
    try:
        for baseline in baselines(bench):
            found = _against(bench, call, keeper, candidate, baseline)
            if isinstance(found, Timing):
                timings.append(found)
            elif baseline == EAGER or found.status == "failed":
                return found
            else:
                missing[baseline] = found.message.partition("\n")[0]
    finally:
        for each in candidate:
            each.close()
    return Compared(tuple(timings), missing)


def _prepared(bench: Bench, call: Call, keeper: Timekeeper) -> Finding | None:
    """Measure what the device can do, and how much identical programs differ, before the candidate may disturb that."""
    try:
        children = keeper.references(bench.task, bench.settings)
        if isinstance(children, Failure):
            return _failed(children, "the reference")
        keeper.peaks(call.dtype)
        keeper.floor(bench.task, call, bench.settings)
    except UNTIMED as error:
        return _untimed(bench.task, error, "the reference")
    return None


def baselines(bench: Bench) -> tuple[str, ...]:
    """What the candidate is compared with: what the run names, and what the task declares."""
    return (*bench.settings.compared_with, *bench.task.baselines)


def _against(
    bench: Bench, call: Call, keeper: Timekeeper, candidate: Sequence[Child], baseline: str
) -> Timing | Finding:
    """The comparison with one baseline, or what is wrong with it."""
    whose = "the reference" if baseline == EAGER else baseline
    try:
        children = keeper.references(bench.task, bench.settings, baseline)
        if isinstance(children, Failure):
            return _failed(children, whose)
        floor = keeper.floor(bench.task, call, bench.settings)
        apart = 1.0 if baseline == EAGER else 2.0
        with keeper.staged(bench.task, call, bench.settings, children, candidate, apart=apart) as arms:
            paired = keeper.compared(arms, bench.settings.budget, len(baselines(bench)))
            warm = arms.warm()
            overran = any(each.overran() for each in arms.buffers)
        if overran:
            return _finding(Reason.OUT_OF_BOUNDS, "memory beside a buffer was written while it was timed")
        if (wrong := _unlike(bench, call, arms)) is not None:
            return _baselines_own(bench, call, keeper, baseline) or wrong
        if arms.left_running():
            what = (
                "the GPU was in use before the reference's turns, until its process ended: it left work running there"
            )
            return _finding(Reason.CLOCK, what)
        return _told(bench.task, call, keeper, arms, Measured(baseline, paired, warm, floor))
    except UNTIMED as error:
        if isinstance(error, ArmFailed) and error.arm == "baseline" and baseline != EAGER:
            keeper.give_up(baseline, error.failure)
        return _untimed(bench.task, error, whose)


UNTIMED = (ArmFailed, CaseError, TooLarge, torch.OutOfMemoryError, InputsFailed, ReferenceFailed)


def _untimed(task: Task, error: BaseException, whose: str) -> Finding:
    """What is said where no times could be taken."""
    match error:
        case ArmFailed():
            return _failed(error.failure, whose if error.arm == "baseline" else "")
        case CaseError():
            return Finding(Reason.CASE, f"case: {error}")
        case TooLarge():
            return Finding(Reason.MEMORY, f"memory: {error}", "skipped")
        case torch.OutOfMemoryError():
            first = str(error).partition("\n")[0]
            text = f"memory: timing this takes more GPU memory than there is: {first}"
            return Finding(Reason.MEMORY, text, "skipped")
    return Finding(Reason.TASK, f"task: {task.name} cannot be timed: {error}")


def _baselines_own(bench: Bench, call: Call, keeper: Timekeeper, baseline: str) -> Finding | None:
    """That it is the baseline which is wrong, where it is: it answers some calls as a candidate would."""
    if baseline == EAGER:
        return None
    other = bench.beside(keeper.program(bench.task, baseline))
    try:
        calls = [replace(call, seed=derive(call.seed, "baseline", each)) for each in range(ASKED_OF_A_BASELINE)]
        if is_right(other, calls):
            return None
    finally:
        other.close()
    return Finding(Reason.NOT_TIMED, f"{baseline} gives wrong values here", "skipped")


def _failed(failure: Failure, whose: str) -> Finding:
    if whose == "the reference" and failure.reason in (Reason.LOAD, Reason.BINDING):
        text = f"{whose} cannot be run in a process of its own: {failure.message}. Write it at the top level of a file"
        return Finding(Reason.NOT_TIMED, text, "skipped")
    if whose and failure.reason is Reason.MEMORY and "CUDA" in failure.message:
        return Finding(
            Reason.MEMORY, f"memory: timing this takes more GPU memory than there is: {failure.message}", "skipped"
        )
    if whose == "the reference":
        return _finding(Reason.TASK, f"{whose} could not be timed: {failure.message}", failure.detail)
    if whose:
        return Finding(Reason.NOT_TIMED, f"{whose} could not be timed: {failure.message}", "skipped")
    if failure.reason in (Reason.COMPILE, Reason.LOAD, Reason.BINDING, Reason.DEVICE):
        status: Status = "skipped" if failure.reason is Reason.DEVICE else "failed"
        return Finding(failure.reason, explain_failure(failure.reason, failure.message, failure.detail), status)
    return _finding(failure.reason, f"{failure.message}, while it was timed", failure.detail)


def _finding(reason: Reason, message: str, detail: str = "") -> Finding:
    return Finding(reason, explain_failure(reason, message, detail))


def _unlike(bench: Bench, call: Call, arms: AnyArms) -> Finding | None:
    """What is wrong with outputs of timed calls: those kept are judged in full, of the others what was looked at."""
    allowed = [0.0] * len(arms.outputs)
    for kept in arms.kept.values():
        truth = _truth(bench, call, kept)
        skipped = len(truth.golden) - len(arms.outputs)
        comparisons = []
        for index, (value, golden, bound) in enumerate(
            zip(kept.outputs, truth.golden[skipped:], truth.bounds[skipped:], strict=True)
        ):
            if value is None:
                return _finding(Reason.STRUCTURE, "what it gave in a timed call is no tensor of the right size")
            comparisons.append(compare(value, golden, bound, output=index))
            allowed[index] = max(allowed[index], widest(bound))
        if not all(each.ok for each in comparisons):
            text = explain(
                comparisons,
                shapes=[each.shape for each in arms.outputs],
                dtypes=[str(each.dtype).removeprefix("torch.") for each in arms.outputs],
            )
            return Finding(Reason.WRONG, f"{text}\n  in a call that was timed", comparisons=tuple(comparisons))
    stray = arms.first_wrong(allowed)
    return None if stray is None else _stray(stray)


def _stray(found: Wrong) -> Finding:
    what = f"timed call {found.call + 1}: {found.wrong} of {found.looked_at} elements looked at are not those of the"
    what += " reference"
    detail = "It was right in other checks, and is wrong while it is timed: it left work out, or gave an old answer."
    return _finding(Reason.WRONG, what, detail)


def _truth(bench: Bench, call: Call, kept: Kept) -> Truth:
    """What a call that was kept should have given."""
    plain = ask(bench.task, call, bench.settings.device)
    values = iter(kept.given)
    arguments = tuple(
        replace(each, values=next(values)) if isinstance(each, Placed) else each for each in plain.arguments
    )
    backward: Backward | None = None
    if plain.backward is not None:
        cotangents = tuple(replace(each, values=next(values)) for each in plain.backward.cotangents)
        backward = replace(plain.backward, cotangents=cotangents)
    question = Question(arguments, eager(bench.task, arguments, backward), backward)
    return answer(bench.task, call, question, rule_of(bench.task, bench.settings))


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of one comparison, before it is judged."""

    baseline: str
    paired: Paired
    warm: float | None
    floor: float


def _told(task: Task, call: Call, keeper: Timekeeper, arms: AnyArms, found: Measured) -> Timing | Finding:
    paired, blocks = found.paired, found.paired.blocks
    if paired.proven > HIDDEN:
        claimed = statistics.median(each.candidate.mean for each in blocks)
        told = f"took at least {claimed * (1 + paired.proven) * 1e6:.4g} us each where it says {claimed * 1e6:.4g} us"
        return _finding(Reason.CLOCK, f"timed calls {told}, by the grader's clock and the kernel's")
    took = statistics.median(each.candidate.least for each in blocks)
    work = work_of(task, call, arms.stage.calls)
    theirs = statistics.median(each.baseline.least for each in blocks)
    if took < (limit := keeper.quickest(work, call.dtype)) <= theirs:  # else it is the count of bytes that is wrong
        what = f"a call is said to take {took * 1e6:.4g} us, this device takes {limit * 1e6:.4g} us for its bytes alone"
        return _finding(Reason.IMPOSSIBLE, what)
    light, roof = keeper.peaks(call.dtype).light(work)
    stated = keeper.datasheet(call.dtype)
    ends = None if paired.interval is None else paired.interval.speedup
    return Timing(
        baseline=found.baseline,
        clock=arms.clock,
        speed=paired.speed,
        speedup=None if ends is None else ends[1],
        low=None if ends is None else ends[0],
        high=None if ends is None else ends[2],
        seconds={
            "baseline": theirs,
            "candidate": took,
        },
        wall={
            "baseline": statistics.median(each.baseline.wall / len(each.baseline.claimed) for each in blocks),
            "candidate": statistics.median(each.candidate.wall / len(each.candidate.claimed) for each in blocks),
        },
        warm=found.warm,
        calls=arms.stage.count,
        threads=keeper.threads,
        blocks=len(blocks),
        rejected=paired.rejected,
        floor=found.floor,
        unseen=paired.unseen,
        spent=paired.seconds,
        bytes=work.read + work.written,
        flops=work.flops,
        light=light,
        roof=roof,
        datasheet=None if stated is None else stated.light(work)[0],
        issuing={str(name): each for name, each in arms.issuing.items()},
        samples=tuple((each.baseline.least, each.candidate.least) for each in blocks[:MOST_SAMPLES]),
    )
