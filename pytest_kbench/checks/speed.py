"""Speed: how fast is the candidate against the reference, by paired turns in children of their own?

What is timed is judged too: every output of every timed call is looked at, some are graded in full, and the candidate's
own clock must agree with the grader's. How fast it must be is not said here.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

import torch

from ..case import Call, CaseError, NamedCase
from ..options import Settings
from ..oracle.compare import compare
from ..oracle.coverage import timed
from ..oracle.golden import Backward, ReferenceFailed, eager
from ..oracle.inputs import InputsFailed, Placed, TooLarge
from ..oracle.message import explain, explain_failure
from ..oracle.truth import Question, Truth, answer, ask, rule_of, widest
from ..record import EAGER, Reason, Record, Status, Timing
from ..sandbox.host import Failure
from ..task import Task
from ..timing.arms import ArmFailed, Kept
from ..timing.paired import Paired
from ..timing.roofline import Work, work_of
from ..timing.witness import Wrong
from .bench import Bench, Stages
from .examine import recorded, without_gradients
from .judge import Finding
from .timekeeper import AnyArms, Timekeeper

HIDDEN = 0.05  # of its time: what a candidate may seem to hide before it is called a lie
MOST_SAMPLES = 400


def cases(task: Task, settings: Settings) -> tuple[NamedCase, ...]:
    """The plain call of every shape that the task times on this device, and its backward where the task says so."""
    return timed(task, settings.kind, settings.seed)


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
        return recorded(bench, named, "speed", stages, found)
    record = Record(bench.task.name, bench.candidate.name, "speed", "passed", case=str(named.case), timings=(found,))
    return replace(record, seconds=dict(stages), message=found.told)


def _timed(bench: Bench, call: Call, keeper: Timekeeper) -> Timing | Finding:
    """The comparison, or what is wrong with it."""
    baseline = keeper.references(bench.task, bench.settings)
    candidate = bench.timed_children(keeper)
    try:
        if isinstance(baseline, Failure):
            return _failed(baseline, "the reference")
        if isinstance(candidate, Failure):
            return _failed(candidate, "")
        floor = keeper.floor(bench.task, call, bench.settings)
        with keeper.staged(bench.task, call, bench.settings, baseline, candidate) as arms:
            paired = keeper.compared(arms, bench.settings.budget)
            warm = arms.warm()
            overran = any(each.overran() for each in arms.buffers)
        if overran:
            return _finding(Reason.OUT_OF_BOUNDS, "memory beside a buffer was written while it was timed")
        if (wrong := _unlike(bench, call, arms)) is not None:
            return wrong
        if arms.left_running():
            what = (
                "the GPU was in use before the reference's turns, until its process ended: it left work running there"
            )
            return _finding(Reason.CLOCK, what)
        return _told(arms, paired, warm, floor, keeper, work_of(bench.task, call, arms.stage.calls))
    except ArmFailed as error:
        return _failed(error.failure, "the reference" if error.arm == "baseline" else "")
    except CaseError as error:
        return Finding(Reason.CASE, f"case: {error}")
    except TooLarge as error:
        return Finding(Reason.MEMORY, f"memory: {error}", "skipped")
    except torch.OutOfMemoryError as error:
        first = str(error).partition("\n")[0]
        return Finding(Reason.MEMORY, f"memory: timing this takes more GPU memory than there is: {first}", "skipped")
    except (InputsFailed, ReferenceFailed) as error:
        return Finding(Reason.TASK, f"task: {bench.task.name} cannot be timed: {error}")
    finally:
        for each in () if isinstance(candidate, Failure) else candidate:
            each.close()


def _failed(failure: Failure, whose: str) -> Finding:
    if whose and failure.reason in (Reason.LOAD, Reason.BINDING):
        text = f"{whose} cannot be run in a process of its own: {failure.message}. Write it at the top level of a file"
        return Finding(Reason.NOT_TIMED, text, "skipped")
    if whose and failure.reason is Reason.MEMORY and "CUDA" in failure.message:
        return Finding(
            Reason.MEMORY, f"memory: timing this takes more GPU memory than there is: {failure.message}", "skipped"
        )
    if whose:
        return _finding(Reason.TASK, f"{whose} could not be timed: {failure.message}", failure.detail)
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


def _told(
    arms: AnyArms, paired: Paired, warm: float | None, floor: float, keeper: Timekeeper, work: Work
) -> Timing | Finding:
    blocks = paired.blocks
    if paired.proven > HIDDEN:
        claimed = statistics.median(each.candidate.mean for each in blocks)
        took = f"took at least {claimed * (1 + paired.proven) * 1e6:.4g} us each where it says {claimed * 1e6:.4g} us"
        return _finding(Reason.CLOCK, f"timed calls {took}, by the grader's clock and the kernel's")
    ends = None if paired.interval is None else paired.interval.speedup
    return Timing(
        baseline=EAGER,
        clock=arms.clock,
        speed=paired.speed,
        speedup=None if ends is None else ends[1],
        low=None if ends is None else ends[0],
        high=None if ends is None else ends[2],
        seconds={
            "baseline": statistics.median(each.baseline.least for each in blocks),
            "candidate": statistics.median(each.candidate.least for each in blocks),
        },
        wall={
            "baseline": statistics.median(each.baseline.wall / len(each.baseline.claimed) for each in blocks),
            "candidate": statistics.median(each.candidate.wall / len(each.candidate.claimed) for each in blocks),
        },
        warm=warm,
        calls=arms.stage.count,
        threads=keeper.threads,
        blocks=len(blocks),
        rejected=paired.rejected,
        floor=floor,
        unseen=paired.unseen,
        spent=paired.seconds,
        bytes=work.read + work.written,
        flops=work.flops,
        issuing={str(name): each for name, each in arms.issuing.items()},
        samples=tuple((each.baseline.least, each.candidate.least) for each in blocks[:MOST_SAMPLES]),
    )
