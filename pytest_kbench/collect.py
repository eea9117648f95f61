"""Task files as pytest modules, and each case of each candidate as a pytest function.

Ids are parts joined by `:`, as in `tasks/softmax.py::correct[naive.cpp:wide:bf16:transposed:s0]`. They come from names
in the declaration alone, so that they are the same on every worker and in every run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from . import benchmark
from .argument import TaskError
from .candidate import Candidate, CandidateError, escaped
from .case import CaseError
from .device import CPU, device_for, kind_of
from .formats import native
from .options import AUDIT, CANDIDATES, LEAST_SCORE, MIN_SCORE, WARM
from .record import Record
from .report.benchmark import ITEM
from .run import RUN, Planned, Run

if TYPE_CHECKING:
    from .case import NamedCase
    from .options import CheckName, Settings
    from .task import Task

T = TypeVar("T")
TURN = 6  # cases of one candidate in a row, before the next has its turn at them

# User properties, in a worker's reports too: a test that is ours, a case's record, and what cannot be graded at all.
CASE, RECORD, PROBLEM, MISSING = "kbench_case", "kbench", "kbench_problem", "kbench_missing"
AUDITED = "kbench_audit"  # the audit of a task


class KernelFailed(Exception):
    """A failed record: the text of the failure, verdict first."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The first line of a failure, as pytest's summary and JUnit report want it."""

    message: str


class Told:
    """A failure as pytest shows it: the text, and its first line in the summary."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.reprcrash = Headline(text.partition("\n")[0])

    def __str__(self) -> str:
        return self.text

    def toterminal(self, terminal: Any) -> None:
        """Write the text."""
        terminal.line(self.text)


class KernelCase(pytest.Function):
    """One case. Fixtures, marks, `-k`, `--lf` and xdist work as for any test function."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user_properties.append((CASE, self.name))
        if self.originalname == "speed" and benchmark.takes_speed_items(self.config):
            self.fixturenames = [*self.fixturenames, benchmark.FIXTURE]  # pytest-benchmark knows its tests by this name

    def setup(self) -> None:
        """Set up fixtures, but for pytest-benchmark's, which warns where it is not used: what fails has no times."""
        self.fixturenames = [name for name in self.fixturenames if name != benchmark.FIXTURE]
        super().setup()

    def grade(self, planned: Planned) -> Record:
        """Grade the case, keep its record with the report, and pass, fail or skip accordingly."""
        run = self.config.stash[RUN]
        try:
            record = run.grade(planned)
        except Exception as error:  # ours: it must show in the table too, beside its traceback
            self.user_properties.append((RECORD, json.dumps(run.internal(planned, error).to_json())))
            raise
        if record.timings:
            item = f"{self.listchain()[-2].nodeid}::{self.name}"  # a group of xdist's would be part of its own id
            record = replace(record, facts={**record.facts, ITEM: item})
        self.user_properties.append((RECORD, json.dumps(record.to_json())))
        if record.status == "failed":
            raise KernelFailed(f"{run.text(planned, record)}\n{reproduce(self, planned, record, run.settings)}")
        if record.status == "skipped":
            headline = record.message.partition("\n")[0]
            raise pytest.skip.Exception(f"{record.reason}: {headline}", _use_item_location=True)
        return record

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The failure as text for people; its first line is the verdict."""
        if isinstance(excinfo.value, KernelFailed):
            return Told(str(excinfo.value))
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the case comes from: its task file."""
        return self.path, 0, self.name


class TaskModule(pytest.Module):
    """A task file. Its items are made from its declaration and the files in the task's candidate folder."""

    def _getobj(self) -> ModuleType:
        """What pytest sees of the file: its marks, and our check functions in place of its own names."""
        loaded = self._loaded()[1]
        seen = ModuleType(loaded.__name__, loaded.__doc__)
        vars(seen).update(FUNCTIONS, __file__=str(self.path), pytestmark=getattr(loaded, "pytestmark", []))
        return seen

    def _loaded(self) -> tuple[Task, ModuleType]:
        if not hasattr(self, "_task_and_module"):
            self._task_and_module = native.load(self.path)
        return self._task_and_module

    def collect(self) -> Iterable[pytest.Item]:
        """One function per case; what cannot be graded is one item that says why, and the rest goes on."""
        run = self.config.stash[RUN]
        broken = f"audit[{escaped(self.path.stem)}]" if run.audits else "task"  # whichever way items are chosen
        try:
            task = run.adapted(self._loaded()[0])
            found = run.find(task)
            named = {device: run.all_cases(task, device) for device in run.devices(found)}
        except native.TaskFileError as error:
            yield Broken.from_parent(self, name=broken, problem=f"task: {error}")
            return
        except (TaskError, CaseError) as error:
            yield Broken.from_parent(self, name="hook", problem=f"task: {self.path.name}: from a hook: {error}")
            return
        except Exception as error:  # a declaration, or a hook, that nobody thought of must not end the run
            problem = f"task: {self.path.name}: no cases can be made of it: {type(error).__name__}: {error}"
            yield Broken.from_parent(self, name=broken, problem=problem)
            return
        if run.audits:
            name = f"audit[{escaped(task.name)}]"
            # Given as text, an id is parsed: one that pytest makes itself would not know its brackets again.
            yield Audited.from_parent(self, name=name, nodeid=f"{self.nodeid}::{name}", task=task)
        yield from (self._broken(each) for each in found if isinstance(each, CandidateError))
        candidates = [each for each in found if isinstance(each, Candidate)]
        if not found:
            yield Missing.from_parent(self, name="candidates", reason=_no_candidate(run, task))
        graded = {device: cases for device, cases in named.items() if task.graded_shapes(kind_of(device))}
        if missing := [device for device in named if device not in graded]:
            reason = f"device: no shape of {task.name} is graded on {' or '.join(missing)}"
            yield Missing.from_parent(self, name="shapes", reason=reason)
        runnable, others = _runnable(candidates, run.settings.device)
        for check in run.settings.checks:
            self._planned = [
                each for device, cases in graded.items() for each in _planned(run, task, runnable, check, device, cases)
            ]
            if (case := next((case for cases in graded.values() for case in cases[check]), None)) is not None:
                self._planned += [Planned(task, each, check, case) for each in others]  # one is enough to say so
            if self._planned:
                yield from self._genfunctions(check, FUNCTIONS[check])

    def _broken(self, error: CandidateError) -> Broken:
        return Broken.from_parent(self, name=f"candidate[{escaped(error.path.name)}]", problem=f"candidate: {error}")

    def _genfunctions(self, name: str, funcobj: Any) -> Iterator[KernelCase]:
        """As pytest makes functions, through the real `metafunc.parametrize`, but of our own class."""
        for each in super()._genfunctions(name, funcobj):
            yield KernelCase.from_parent(
                self,
                name=each.name,
                callspec=each.callspec,
                fixtureinfo=each._fixtureinfo,
                keywords={each.callspec.id: True},
                originalname=name,
            )

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """The cases of the check that is being collected."""
        metafunc.parametrize(
            "kbench_case",
            [
                pytest.param(each, id=each.id, marks=(pytest.mark.kbench, getattr(pytest.mark, f"kbench_{each.check}")))
                for each in self._planned
            ],
        )


def _planned(
    run: Run,
    task: Task,
    candidates: Sequence[Candidate],
    check: CheckName,
    device: str,
    cases: Mapping[CheckName, Sequence[NamedCase]],
) -> Iterator[Planned]:
    """What a check grades on one device.

    Candidates take turns at a few cases: what is true of these is found out once.
    """
    own = [each for each in candidates if device_for(each, run.settings.device) == device]
    counts = ",".join(f"{name}={len(several)}" for name, several in cases.items())
    for group in _chunks(own, WARM):
        for turn in _chunks(cases[check], TURN):
            for each in group:
                for case in turn:
                    yield Planned(task, each, check, case, counts)


def _runnable(candidates: Sequence[Candidate], device: str) -> tuple[list[Candidate], list[Candidate]]:
    """Those that can run on this device, and those that cannot run on a CPU."""
    from .build.program import needs_cuda  # with torch behind it

    others = [each for each in candidates if kind_of(device) == CPU and needs_cuda(each)]
    return [each for each in candidates if each not in others], others


def _chunks(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def _no_candidate(run: Run, task: Task) -> str:
    where = run.candidates / task.name
    if run.only is not None:
        return f"no candidate called {run.only} in {where}"
    return f"no candidate in {where}" if where.is_dir() else f"no candidate: there is no folder {where}"


class TaskItem(pytest.Item):
    """What stands for a task file that has no cases."""

    PROPERTY = "kbench_task"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_marker("kbench")
        self.user_properties.append((self.PROPERTY, self.path.stem))

    def reportinfo(self) -> tuple[Path, int, str]:
        """The task file."""
        return self.path, 0, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The failure as text for people; its first line is the verdict."""
        if isinstance(excinfo.value, KernelFailed):
            return Told(str(excinfo.value))
        return super().repr_failure(excinfo)


class Broken(TaskItem):
    """A task file that cannot be graded."""

    def __init__(self, *, problem: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.problem = problem
        self.user_properties.append((PROBLEM, problem))

    def runtest(self) -> None:
        """Fail, saying why."""
        raise KernelFailed(self.problem)


class Audited(TaskItem):
    """The audit of a task."""

    def __init__(self, *, task: Task, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.task = task

    def runtest(self) -> None:
        """Audit the task, keep what is found with the report, and fail where it does not hold."""
        from .report.audit import text  # with --kbench-audit alone

        run = self.config.stash[RUN]
        audit = run.audit(self.task)
        self.user_properties.append((AUDITED, json.dumps(audit.to_json())))
        if problems := audit.problems(run.least_score):
            raise KernelFailed(f"{text(audit, problems)}\n{self._reproduce(run)}")

    def _reproduce(self, run: Run) -> str:
        least = [f"{MIN_SCORE}={run.least_score:g}"] if run.least_score != LEAST_SCORE else []
        words = [*_words(self), AUDIT, *least, "-k", "audit", f"--kbench-seed={run.settings.seed:x}"]
        return " ".join([*map(shlex.quote, words), run.settings.flags()]).rstrip()


class Missing(TaskItem):
    """A task of which nothing can be graded here: skipped, so that it shows."""

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason
        self.user_properties.append((MISSING, reason))

    def runtest(self) -> None:
        """Skip, saying why."""
        raise pytest.skip.Exception(self.reason, _use_item_location=True)


def planned_of(item: pytest.Item | None) -> Planned | None:
    """What an item grades; `None` for other tests."""
    planned = item.callspec.params["kbench_case"] if isinstance(item, KernelCase) else None
    return planned if isinstance(planned, Planned) else None


def reproduce(item: pytest.Item, planned: Planned, record: Record, settings: Settings) -> str:
    """The command that grades just this case again, from the folder in which pytest was started."""
    words = [*_words(item), f"--kbench-candidate={planned.candidate.name}", f"--kbench-checks={planned.check}"]
    words += [f"--kbench-case={record.case}"] if record.case else []
    return " ".join([*map(shlex.quote, words), settings.flags()]).rstrip()


def _words(item: pytest.Item) -> list[str]:
    """The words with which a command that runs something of this item's file again begins."""
    start = item.config.invocation_params.dir
    path = item.path.relative_to(start) if item.path.is_relative_to(start) else item.path
    option, given = item.config.option, item.config.invocation_params.args
    words = ["pytest", str(path), "--kbench"]
    words += [word for pair in pairwise(given) if pair[0] == "-o" for word in map(str, pair)]
    words += [str(each) for each in given if str(each).startswith("--override-ini=")]
    words += ["-c", str(option.inifilename)] if option.inifilename else []
    words += [f"--rootdir={option.rootdir}"] if option.rootdir else []
    return words + ([f"{CANDIDATES}={option.kbench_candidates}"] if option.kbench_candidates else [])


def build(kbench_case: Planned, request: pytest.FixtureRequest) -> None:
    """Does it compile, load, and have an entry point?"""
    request.node.grade(kbench_case)


def correct(kbench_case: Planned, request: pytest.FixtureRequest) -> None:
    """Is every output within the bound of the float64 golden?"""
    request.node.grade(kbench_case)


def contract(kbench_case: Planned, request: pytest.FixtureRequest) -> None:
    """Do several calls in one child leave inputs alone and outputs right?"""
    request.node.grade(kbench_case)


def determinism(kbench_case: Planned, request: pytest.FixtureRequest) -> None:
    """Do repeats of a call agree bit by bit?"""
    request.node.grade(kbench_case)


def fuzz(kbench_case: Planned, request: pytest.FixtureRequest) -> None:
    """Does any case that is drawn from the declaration fail?"""
    request.node.grade(kbench_case)


def grad(kbench_case: Planned, request: pytest.FixtureRequest) -> None:
    """Are the gradients of every declared argument those of the reference?"""
    request.node.grade(kbench_case)


def sanitize(kbench_case: Planned, request: pytest.FixtureRequest) -> None:
    """Does a sanitizer that watches every access find nothing?"""
    request.node.grade(kbench_case)


def speed(kbench_case: Planned, request: pytest.FixtureRequest) -> None:
    """How fast is it, against the reference?"""
    benchmark.replay(request, request.node.grade(kbench_case))


FUNCTIONS = {
    "build": build,
    "correct": correct,
    "contract": contract,
    "determinism": determinism,
    "fuzz": fuzz,
    "grad": grad,
    "sanitize": sanitize,
    "speed": speed,
}
