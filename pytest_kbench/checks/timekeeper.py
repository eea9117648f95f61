"""What speed items of one grader share: CPUs, flush, the noise of this machine, and the last reference's child."""

from __future__ import annotations

import inspect
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..case import Call
from ..options import Settings
from ..oracle.coverage import derive
from ..oracle.inputs import Placed
from ..oracle.truth import Question, ask
from ..sandbox.host import Child, Failure, Limits, OutputSpec, Program, Sandbox, ValueArgument
from ..sandbox.turns import Calls, Performer, Spec, Stage
from ..task import Task
from ..timing import stats
from ..timing.arms import Arms, calls_of_a_turn
from ..timing.cpu import Flush, chosen_cpus, out_of_the_way
from ..timing.fresh import SETS, Fresh
from ..timing.lock import DeviceLock
from ..timing.paired import Name, Paired, measure
from . import gradients

FIRST_TURNS, FIRST_CALLS = 5, 4  # by which the number of calls in a turn is found


@dataclass(slots=True)
class Timekeeper:
    """Compares children in turns. For one thread at a time."""

    sandbox: Sandbox
    settings: Settings
    lock: DeviceLock = field(default_factory=lambda: DeviceLock("cpu"))
    _flush: Flush | None = None
    _floor: float | None = None
    _reference: tuple[str, Child] | None = None

    @property
    def threads(self) -> int:
        """Of every arm: one unless asked, as threads that wait for each other are slower by chance."""
        return self.settings.threads or 1

    @property
    def cpus(self) -> tuple[int, ...]:
        """What every arm runs on."""
        return chosen_cpus(self.threads, sorted(os.sched_getaffinity(0)))

    @property
    def flush(self) -> Flush:
        """Empties the caches."""
        self._flush = Flush() if self._flush is None else self._flush
        return self._flush

    @property
    def precision(self) -> stats.Precision:
        """When to stop, and what counts as no difference here."""
        return replace(stats.CPU, floor=self._floor or 0.0)

    def close(self) -> None:
        """End the reference's child."""
        if self._reference is not None:
            self._reference[1].close()
            self._reference = None

    def start(self, program: Program, limits: Limits) -> Child | Failure:
        """A child that is to be timed; the caller closes it."""
        pinned = replace(limits, threads=self.threads, cpus=self.cpus)
        return self.sandbox.start(program, pinned, time.monotonic() + self.settings.build_timeout)

    def reference(self, task: Task) -> Child | Failure:
        """The child that runs a task's reference; that of the last task is kept."""
        if self._reference is not None and self._reference[0] == task.digest and self._reference[1].alive:
            return self._reference[1]
        self.close()
        child = self._reference_of(task)
        if isinstance(child, Child):
            self._reference = task.digest, child
        return child

    def _reference_of(self, task: Task) -> Child | Failure:
        file = Path(inspect.getsourcefile(task.function) or "")
        return self.start(Program("reference", file, (task.function.__name__,)), Limits())

    def floor(self, task: Task, call: Call) -> float:
        """The log-ratio by which two children that run the same reference differ; found out once."""
        if self._floor is None:
            baseline, other = self.reference(task), self._reference_of(task)
            if isinstance(baseline, Failure) or isinstance(other, Failure):
                return 0.0
            try:
                with self.staged(task, call, baseline, other) as arms:
                    found = self.compared(arms).interval
                self._floor = 0.0 if found is None else abs(found.median)
            finally:
                other.close()
        return self._floor

    def compared(self, arms: Arms) -> Paired:
        """Warm up, and measure. Raises `ArmFailed`."""
        with out_of_the_way(self.cpus):
            arms.warm_up()
            return measure(arms.take, self.precision, budget=self.settings.budget, chance=arms.chance)

    @contextmanager
    def staged(self, task: Task, call: Call, baseline: Child, candidate: Child) -> Iterator[Arms]:
        """Both arms before a stage of as many calls as fill a turn. Raises `ArmFailed`, and what `ask` raises."""
        question = ask(task, call)
        sets = [question, *(ask(task, replace(call, seed=derive(call.seed, "set", each))) for each in range(1, SETS))]
        starts = [each.backward.cotangents for each in sets if each.backward is not None]
        fresh = Fresh(task, [each.arguments for each in sets], starts)
        calls, outputs = _calls(task, question, candidate)
        performers: dict[Name, Performer] = {"baseline": Performer(baseline), "candidate": Performer(candidate)}
        count = FIRST_CALLS
        for last in (False, True):
            stage = Stage(calls, count)
            try:
                arms = Arms(
                    performers, stage, fresh, self.flush, random.Random(derive(call.seed, "turns")), outputs,
                    "backward" if call.grad else "forward", self.settings.timeout, self.settings.build_timeout,
                )  # fmt: skip
                arms.rehearse()
                if last:
                    yield arms
                else:
                    count = calls_of_a_turn(_slowest(arms), sum(each.size for each in stage.buffers) // FIRST_CALLS)
            finally:
                stage.close()


def _slowest(arms: Arms) -> float:
    """Seconds of a call of the slower arm, warm."""
    return max(min(min(arms.turn(name, arms.draws()).claimed) for _ in range(FIRST_TURNS)) for name in arms.performers)


def _calls(task: Task, question: Question, candidate: Child) -> tuple[Calls, tuple[OutputSpec, ...]]:
    """What is called, and what of it is looked at."""
    plain, backward = question.eager, question.backward
    arguments = tuple(
        Spec(each.name, each.values.dtype, tuple(each.values.shape), each.in_place)
        if isinstance(each, Placed)
        else ValueArgument(each.name, each.value)
        for each in question.arguments
    )
    outputs = tuple(OutputSpec(each.dtype, tuple(each.shape)) for each in plain.outputs[: plain.returned])
    if backward is None:
        written = tuple(
            OutputSpec(each.dtype, each.shape) for each in arguments if isinstance(each, Spec) and each.in_place
        )
        return Calls(arguments, outputs), (*outputs, *written)
    due = tuple(spec for _, spec in gradients.due(task, question, explicit=candidate.has_backward))
    starts = gradients.starts(question)
    cotangents = tuple(
        (index, Spec(each.name, each.values.dtype, tuple(each.values.shape))) for index, each in starts.items()
    )
    leaves = tuple(index for index, each in enumerate(question.arguments) if each.name in backward.leaves)
    calls = Calls(arguments, outputs, cotangents, due, leaves)
    return calls, tuple(each for each in due if each is not None)
