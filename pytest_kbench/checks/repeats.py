"""Calls that ought to give the same bits: repeats, with any number of threads, and one index of a batch alone.

Every answer is judged as in any check; this is about what differs between answers that are all right.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from ..case import Call, Case, NamedCase
from ..options import CheckName
from ..oracle.bits import same_bits, words
from ..oracle.coverage import derive
from ..oracle.message import explain_failure
from ..record import Reason, Record
from ..sandbox.host import Returned
from ..task import Task
from .bench import Answer, Bench, Stages
from .examine import Judged, Passed, recorded, run
from .judge import Finding, gradients_of, outputs_of

REPEATS = 6  # of a call, with another in between: enough that most races and atomics show
ALONE = 2  # with one thread, where only threads of a candidate's own can race
CROWDED = 3  # with more threads than there are CPUs
CROWDS = (7, 13, 31, 61, 97)  # primes: no work divides evenly among them; more would be too many processes

Outputs = Sequence[torch.Tensor]


def examine_repeats(bench: Bench, named: NamedCase, check: CheckName) -> Record:
    """Make each call several times, grade all answers, and tell by how much they differ.

    So with the usual number of threads, with one, and with more than there are CPUs; each in a child of its own.
    """
    stages = Stages()
    with stages.timed("total"):
        found, facts = _with_any_threads(bench, named.case, stages)
    if "repeats" in facts:
        text = explain_failure(Reason.NONDETERMINISTIC, f"repeats of a call differ in {facts['repeats']}")
        if bench.task.deterministic:
            return recorded(bench, named, check, stages, Finding(Reason.NONDETERMINISTIC, text))
    else:
        text = "".join(f"differs with the number of threads: {difference}" for difference in facts.values())
    record = recorded(bench, named, check, stages, found)
    return replace(record, message=text, facts={**record.facts, **facts}) if facts else record


def _with_any_threads(bench: Bench, case: Case, stages: Stages) -> tuple[Passed | Finding, dict[str, str]]:
    """What was found; and of right answers how `repeats` differ or, if they do not, those with other `threads`."""
    judged: Judged = {}
    usual = run(bench, _repeated(case, REPEATS), stages, judged)
    if isinstance(usual, Finding):
        return usual, {}
    groups = _groups(bench.task, usual.answers, REPEATS)
    repeats = difference(groups)
    firsts = [[group[0]] for group in groups]
    for threads, times in other_threads(bench.settings.threads, len(os.sched_getaffinity(0))):
        with bench.with_threads(threads):
            found = run(bench, _repeated(case, times), stages, judged, reread=False)
        named = "1 thread" if threads == 1 else f"{threads} threads"
        if isinstance(found, Finding):
            return replace(found, message=f"{found.message}\nin a child with {named}"), {}
        groups = _groups(bench.task, found.answers, times)
        if repeats is None and (differing := difference(groups)):
            repeats = f"{differing}, with {named}"
        for known, group in zip(firsts, groups, strict=True):
            known.append(group[0])
    if repeats is not None:
        return usual, {"repeats": repeats}
    between = difference(firsts)
    return usual, {} if between is None else {"threads": between}


def other_threads(limit: int | None, cpus: int) -> list[tuple[int, int]]:
    """Numbers of threads to try beside the usual one, each with how often a call is repeated there.

    The usual number is one per CPU, or the `limit` that the user sets: then none beyond it is tried.
    """
    alone = [(1, ALONE)] if (limit or cpus) > 1 else []
    crowd = next((each for each in CROWDS if each > cpus), CROWDS[0])
    return alone if limit else [*alone, (crowd, CROWDED)]


def examine_batch(bench: Bench, named: NamedCase, check: CheckName) -> Record:
    """Make calls of a batch, and calls for one of its indices alone, which must give the bits that the batch gives."""
    stages = Stages()
    with stages.timed("total"):
        found = run(bench, named.case, stages)
        if isinstance(found, Passed):
            found = _unlike_the_batch(bench.task, found.answers) or found
    return recorded(bench, named, check, stages, found)


def _unlike_the_batch(task: Task, answers: Sequence[Answer]) -> Finding | None:
    """The first index that gives other bits alone than in the batch, of those whose batch is among the calls."""
    batches = {answer.call: answer for answer in answers if not answer.call.only}
    for answer in answers:
        batch = batches.get(replace(answer.call, only=()))
        if batch is None or batch is answer:
            continue
        pairs = list(zip(_outputs(task, batch), _outputs(task, answer), strict=True))
        sizes = [dict(answer.call.dims)[name] for name, _ in answer.call.only]
        having = [(whole, alone) for whole, alone in pairs if whole.shape != alone.shape or set(sizes) == {1}]
        parts = [(part_of(whole, alone, answer.call), alone) for whole, alone in having]
        where = ",".join(f"{name}={index}" for name, index in answer.call.only)
        if not parts or any(part is None for part, _ in parts):
            shapes = ", ".join(f"{tuple(whole.shape)} and {tuple(alone.shape)}" for whole, alone in pairs)
            text = f"no part of the batch's outputs is that of {where}: in the batch and alone they are {shapes}"
            return Finding(Reason.TASK, explain_failure(Reason.TASK, text))
        for part, alone in parts:
            if part is not None and (differing := difference([[[part], [alone]]])):
                size, place = ",".join(map(str, sizes)), _worst(part, alone)
                text = f"{where} alone differs from {where} in the batch of {size} in {differing}, at {place} alone"
                case = Case((batch.call, answer.call))
                return Finding(Reason.BATCH, explain_failure(Reason.BATCH, text), case=case)
    return None


def part_of(whole: torch.Tensor, alone: torch.Tensor, call: Call) -> torch.Tensor | None:
    """What of a batch's output belongs to the index of a call, which has one element in place of each dimension `only`.

    `None` where the shapes do not tell which dimensions these are.
    """
    sizes = dict(call.dims)
    if whole.dim() != alone.dim():
        return None
    for axis, (extent, left) in enumerate(zip(whole.shape, alone.shape, strict=True)):
        indices = [index for name, index in call.only if extent == sizes[name] and left == 1]
        if extent != left and len(indices) != 1:
            return None
        if extent != left:
            whole = whole.narrow(axis, indices[0], 1)
    return whole


def _worst(expected: torch.Tensor, other: torch.Tensor) -> list[int]:
    """Where two tensors whose bits differ are farthest apart."""
    distance = (expected.double() - other.double()).abs().nan_to_num(nan=math.inf)
    distance[words(expected) == words(other)] = -1.0
    return [int(each) for each in torch.unravel_index(distance.argmax(), distance.shape)]


def _repeated(case: Case, times: int) -> Case:
    """Each call several times, with other values in between: the last answer, kept, is no repeat."""
    calls: list[Call] = []
    for call in case.calls:
        calls += [call, replace(call, seed=derive(call.seed, "between"))] * (times - 1) + [call]
    return Case(tuple(calls))


def _groups(task: Task, answers: Sequence[Answer], times: int) -> list[list[Outputs]]:
    """The outputs of a repeated case, those of the same call together."""
    outputs = [_outputs(task, each) for each in answers]
    length = 2 * times - 1
    turns = [outputs[start : start + length] for start in range(0, len(outputs), length)]
    return [turn[shift::2] for turn in turns for shift in (0, 1)]


def _outputs(task: Task, answer: Answer) -> Outputs:
    assert isinstance(answer.returned, Returned)
    return [*outputs_of(task, answer.returned), *gradients_of(answer, answer.returned)]


def difference(groups: Iterable[Sequence[Outputs]]) -> str | None:
    """How the outputs in each group differ from its first: how many elements do, and the largest distance."""
    differing = elements = 0
    largest = 0.0
    for first, *others in groups:
        for expected, *repeats in zip(first, *others, strict=True):
            elements += expected.numel()
            unlike = [each for each in repeats if not same_bits(expected, each)]
            changed = [words(expected) != words(each) for each in unlike]
            for each, where in zip(unlike, changed, strict=True):
                distances = (expected[where].double() - each[where].double()).abs()
                largest = max(largest, float(distances.nan_to_num(nan=math.inf).max()))
            differing += int(torch.stack(changed).any(0).sum()) if changed else 0
    return f"{differing:,} of {elements:,} elements, by at most {largest:.3g}" if differing else None
