"""What speed items of one grader share: CPUs, flush, the noise of this machine, and the last reference's child."""

from __future__ import annotations

import inspect
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from ..build.cache import Store
from ..build.first_call import baselines_folder
from ..case import Call
from ..device import CPU, cpu_model
from ..options import Settings
from ..oracle.coverage import derive
from ..oracle.inputs import Placed, draw
from ..oracle.truth import Question, ask
from ..record import EAGER, Reason
from ..sandbox.host import Child, Failure, Limits, OutputSpec, Program, Sandbox, SandboxError, ValueArgument
from ..sandbox.kept import Kept, lend
from ..sandbox.turns import Calls, Performer, Spec, Stage
from ..task import Task
from ..timing import stats
from ..timing.arms import ArmFailed, Arms, calls_of_a_turn
from ..timing.cpu import Flush, chosen_cpus, in_their_place, last_level_cache, out_of_the_way
from ..timing.fresh import SETS, Fresh
from ..timing.gpu import GpuArms
from ..timing.lock import Both, DeviceLock
from ..timing.paired import Name, Paired, measure
from ..timing.peaks import Peaks, measured, remembered
from ..timing.roofline import Work
from . import gradients

AnyArms = Arms | GpuArms
# Baselines that `torch.compile` makes, by its modes. CUDA graphs are the clock's own: it captures every arm's calls.
MODES = {"compile": "default", "max-autotune": "max-autotune-no-cudagraphs"}
FIRST_CALLS = 4  # of a turn, by which the number of calls in later ones is found


@dataclass(slots=True)
class Timekeeper:
    """Compares children in turns. For one thread at a time."""

    sandbox: Sandbox
    store: Store
    threads: int = 1  # of every arm: one unless asked, as threads that wait for each other are slower by chance
    device: str = CPU
    children: int = 3  # of each arm: by luck one of them is a few per cent faster than another all its life
    _flush: Flush | None = None
    _floor: float | None = None
    _digest: str = ""  # of the last task
    _references: dict[str, tuple[Child, ...]] = field(default_factory=dict)  # of that task, by the baseline's name
    _impossible: dict[str, Failure] = field(default_factory=dict)  # baselines of that task, and why
    _compiled: Kept | None = None
    _peaks: dict[str, Peaks] = field(default_factory=dict)  # by dtype

    @property
    def lock(self) -> DeviceLock | Both:
        """Of the device, for all runs on this machine."""
        return DeviceLock(self.device)

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

    def peaks(self, dtype: str) -> Peaks:
        """What this device can do at most with a dtype, on as many threads; measured once, and kept with the builds."""
        if dtype not in self._peaks:
            kept = self.store.root / "peaks.json"
            self._peaks[dtype] = remembered(kept, self._known_as(), dtype, lambda: self._measured(dtype))
        return self._peaks[dtype]

    def datasheet(self, dtype: str) -> Peaks | None:
        """What its maker states: of a CPU nothing that is of use."""
        return None

    def quickest(self, work: Work, dtype: str) -> float:
        """Seconds of a call, below which nobody is believed; 0.0 where caches that are not emptied may help."""
        return 0.0

    def _known_as(self) -> str:
        return f"{cpu_model() or 'CPU'}, {len(self.cpus)} threads, torch {torch.__version__}"

    def _measured(self, dtype: str) -> Peaks:
        with in_their_place(self.cpus):
            return measured(torch.device(CPU), dtype, last_level_cache())

    def close(self) -> None:
        """End the baselines' children, and keep what they compiled."""
        self._end_references()
        if self._compiled is not None:
            self._compiled.take_back(ended=True, asked=None, sound=True)
            self._compiled = None

    def _end_references(self) -> None:
        for child in (child for several in self._references.values() for child in several):
            child.close()
        self._references.clear()

    def several(self, program: Program, limits: Limits, seconds: float) -> tuple[Child, ...] | Failure:
        """Children of one program that are to be timed, each loaded within so many seconds; the caller closes them."""
        pinned = replace(limits, threads=self.threads, cpus=self.cpus)
        made: list[Child] = []
        try:
            for _ in range(self.children):
                child = self.sandbox.start(program, pinned, time.monotonic() + seconds)
                if isinstance(child, Failure):
                    _close(made)
                    return child
                made.append(child)
        except BaseException:
            _close(made)
            raise
        return tuple(made)

    def references(self, task: Task, settings: Settings, baseline: str = EAGER) -> tuple[Child, ...] | Failure:
        """The children that run one of a task's baselines; those of the last task are kept."""
        if self._digest != task.digest:
            self._end_references()
            self._impossible.clear()
            self._digest = task.digest
        known = self._references.pop(baseline, ())
        if known and all(each.alive for each in known):
            self._references[baseline] = known
            return known
        for each in known:
            each.close()
        if baseline in self._impossible:
            return self._impossible[baseline]
        try:
            children = self._references_of(task, settings, baseline)
        except SandboxError as error:
            if baseline == EAGER:
                raise
            children = Failure(Reason.ENVIRONMENT, str(error))
        if isinstance(children, Failure):
            self._impossible[baseline] = children  # it would take as long again
        else:
            self._references[baseline] = children
        return children

    def give_up(self, baseline: str, failure: Failure) -> None:
        """Do not try a baseline of this task again."""
        self._impossible[baseline] = failure

    def _references_of(self, task: Task, settings: Settings, baseline: str = EAGER) -> tuple[Child, ...] | Failure:
        return self.several(self.program(task, baseline), Limits(), settings.build_timeout)

    def program(self, task: Task, baseline: str) -> Program:
        """What a child loads to run one of a task's baselines."""
        if baseline in task.baselines:
            return reference_program(task.baselines[baseline], self.device)
        program = reference_program(task.function, self.device)
        if baseline not in MODES:
            return program
        if self._compiled is None:
            self._compiled = lend(baselines_folder(self.store, self.threads))
        kept = None if self._compiled is None else self._compiled.path
        return replace(program, mode=MODES[baseline], kept=kept, compiles=True)

    def floor(self, task: Task, call: Call, settings: Settings) -> float:
        """The log-ratio by which children that run the same reference differ; found out once. Raises `ArmFailed`."""
        if self._floor is None:
            baseline, others = self.references(task, settings), self._references_of(task, settings)
            if isinstance(baseline, Failure) or isinstance(others, Failure):
                _close(() if isinstance(others, Failure) else others)
                return 0.0
            try:
                with self.staged(task, call, settings, baseline, others) as arms:
                    found = self.compared(arms, settings.budget).interval
                self._floor = 0.0 if found is None else abs(found.median)
            except ArmFailed as error:
                raise ArmFailed("baseline", error.failure) from error  # both arms are the reference here
            finally:
                for each in others:
                    each.close()
        return self._floor

    def compared(self, arms: AnyArms, budget: float, number: int = 1) -> Paired:
        """Warm up, and measure for about `budget` seconds; one of `number` comparisons. Raises `ArmFailed`."""
        assert isinstance(arms, Arms)
        with out_of_the_way(self.cpus):
            arms.warm_up()
            return measure(arms.take, self.precision, budget=budget, arms=number, chance=arms.chance)

    @contextmanager
    def staged(
        self,
        task: Task,
        call: Call,
        settings: Settings,
        baseline: Sequence[Child],
        candidate: Sequence[Child],
        *,
        apart: float = 1.0,
    ) -> Iterator[AnyArms]:
        """Both arms before a stage of as many calls as fill a turn. Raises `ArmFailed`, and what `ask` raises.

        Outputs of both may differ by `apart` times the bound of one.
        """
        question = ask(task, call)
        sets = [question, *(ask(task, replace(call, seed=derive(call.seed, "set", each))) for each in range(1, SETS))]
        starts = [each.backward.cotangents for each in sets if each.backward is not None]
        fresh = Fresh(
            task, [each.arguments for each in sets], lambda seed: draw(task, replace(call, seed=seed)), starts
        )
        calls, outputs = calls_of(task, question, explicit=candidate[0].has_backward)
        performers: dict[Name, Sequence[Performer]] = {
            "baseline": tuple(map(Performer, baseline)), "candidate": tuple(map(Performer, candidate)),
        }  # fmt: skip
        count = FIRST_CALLS
        for last in (False, True):
            stage = Stage(calls, count)
            try:
                arms = Arms(
                    performers, stage, fresh, self.flush, random.Random(secrets.randbits(64)), outputs,
                    "backward" if call.grad else "forward", settings.timeout, settings.build_timeout, apart,
                )  # fmt: skip
                arms.rehearse()
                if last:
                    yield arms
                else:
                    count = calls_of_a_turn(arms.slowest(), sum(each.size for each in stage.buffers) // FIRST_CALLS)
            finally:
                for each in (*performers["baseline"], *performers["candidate"]):
                    each.leave()
                stage.close()


def _close(children: Sequence[Child]) -> None:
    for each in children:
        each.close()


def reference_program(function: Callable[..., object], device: str) -> Program:
    """What a child loads to run a reference, or a baseline that a task declares: a function at the top of a file."""
    plain = inspect.unwrap(function)
    file = Path(inspect.getsourcefile(plain) or "")
    return Program("reference", file, (plain.__name__,), device=device)


def calls_of(task: Task, question: Question, *, explicit: bool) -> tuple[Calls, tuple[OutputSpec, ...]]:
    """What is called, and what of it is looked at; `explicit`: the candidate has a backward of its own."""
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
    due = tuple(spec for _, spec in gradients.due(task, question, explicit=explicit))
    starts = gradients.starts(question)
    cotangents = tuple(
        (index, Spec(each.name, each.values.dtype, tuple(each.values.shape))) for index, each in starts.items()
    )
    names = [each.name for each in question.arguments]
    leaves = tuple(names.index(each) for each in backward.leaves)
    calls = Calls(arguments, outputs, cotangents, due, leaves)
    return calls, tuple(each for each in due if each is not None)
