"""Task files as pytest modules, and each case of each candidate as a pytest function.

Ids are parts joined by `:`, as in `tasks/softmax.py::correct[naive.cpp:wide:bf16:transposed:s0]`. They come from names
in the declaration alone, so that they are the same on every worker and in every run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from .candidate import Candidate, CandidateError, find
from .case import NamedCase
from .formats import native
from .record import CheckName, Record

if TYPE_CHECKING:
    from .options import Settings
    from .session import Run
    from .task import Task


@dataclass(frozen=True, slots=True)
class Planned:
    """What one test function grades: one case of one check of one candidate."""

    task: Task
    candidate: Candidate
    check: CheckName
    named: NamedCase

    @property
    def id(self) -> str:
        """The bracketed part of the test's name."""
        return ":".join(part for part in (self.candidate.id, self.named.id) if part)


class KernelFailed(Exception):
    """A failed record: the text of the failure, verdict first."""


class KernelCase(pytest.Function):
    """One case. Fixtures, marks, `-k`, `--lf` and xdist work as for any test function."""

    def grade(self, planned: Planned) -> None:
        """Grade the case, keep its record with the report, and pass, fail or skip accordingly."""
        run: Run = self.config.stash[RUN]
        record = run.grade(planned)
        self.user_properties.append(("kbench", json.dumps(record.to_json())))
        if record.status == "failed":
            raise KernelFailed(f"{run.text(planned, record)}\n{reproduce(self, planned, record, run.settings)}")
        if record.status == "skipped":
            pytest.skip(f"{record.reason}: {record.message.splitlines()[0]}" if record.message else str(record.reason))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The failure as text for people; its first line is the verdict."""
        if isinstance(excinfo.value, KernelFailed):
            return str(excinfo.value)
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
        """One function per case; a file that cannot be graded is one failing item, and the run goes on."""
        try:
            task = self._loaded()[0]
            candidates = self._candidates(task)
        except (native.TaskFileError, CandidateError) as error:
            yield Broken.from_parent(self, name="task", problem=str(error))
            return
        if not candidates:
            yield Missing.from_parent(self, name="candidates", folder=self._folder(task))
            return
        run: Run = self.config.stash[RUN]
        for check in run.settings.checks:
            self._planned = tuple(_plan(task, candidates, check, run))
            if self._planned:
                yield from self._genfunctions(check, FUNCTIONS[check])

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
        marks = (pytest.mark.kbench,)
        metafunc.parametrize("kbench_case", [pytest.param(each, id=each.id, marks=marks) for each in self._planned])

    def _folder(self, task: Task) -> Path:
        return candidates_folder(self.config) / task.name

    def _candidates(self, task: Task) -> tuple[Candidate, ...]:
        wanted = self.config.getoption("--kbench-candidate")
        return tuple(each for each in find(self._folder(task)) if wanted in (None, each.name))


class TaskItem(pytest.Item):
    """What stands for a task file that has no cases."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_marker("kbench")
        self.user_properties.append(("kbench_task", self.path.stem))

    def reportinfo(self) -> tuple[Path, int, str]:
        """The task file."""
        return self.path, 0, self.name


class Broken(TaskItem):
    """A task file that cannot be graded."""

    def __init__(self, *, problem: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.problem = problem

    def runtest(self) -> None:
        """Fail, saying why."""
        raise KernelFailed(f"task: {self.problem}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """One line: file, field, fix."""
        return str(excinfo.value)


class Missing(TaskItem):
    """A task that nobody claims to implement: skipped, so that it shows."""

    def __init__(self, *, folder: Path, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folder = folder

    def runtest(self) -> None:
        """Skip, saying where a candidate would be looked for."""
        wanted = self.config.getoption("--kbench-candidate")
        pytest.skip(f"no candidate{f' named {wanted}' if wanted else ''} in {self.folder}")


def candidates_folder(config: pytest.Config) -> Path:
    """Where candidates live: the ini option `kbench_candidates`, relative to the rootdir."""
    return config.rootpath / str(config.getini("kbench_candidates"))


def reproduce(item: pytest.Item, planned: Planned, record: Record, settings: Settings) -> str:
    """The command that grades just this case again."""
    parts = ["pytest", shlex.quote(_relative(item)), "--kbench", f"--kbench-candidate={planned.candidate.name}"]
    parts = [*parts[:3], shlex.quote(parts[3])]
    if record.case:
        parts.append(f"--kbench-checks={planned.check}")
        parts.append(shlex.quote(f"--kbench-case={record.case}"))
    else:
        parts.append(f"--kbench-checks={planned.check}")
    if flags := settings.flags():
        parts.append(flags)
    return " ".join(parts)


def _relative(item: pytest.Item) -> str:
    try:
        return str(item.path.relative_to(item.config.invocation_params.dir))
    except ValueError:
        return str(item.path)


def _plan(task: Task, candidates: Iterable[Candidate], check: CheckName, run: Run) -> Iterator[Planned]:
    for candidate in candidates:
        for named in run.cases(task, check):
            yield Planned(task, candidate, check, named)


def build(kbench_case: Planned, request: pytest.FixtureRequest) -> None:
    """Does it compile, load, and have an entry point?"""
    request.node.grade(kbench_case)


def correct(kbench_case: Planned, request: pytest.FixtureRequest) -> None:
    """Is every output within the bound of the float64 golden?"""
    request.node.grade(kbench_case)


def contract(kbench_case: Planned, request: pytest.FixtureRequest) -> None:
    """Do several calls in one child leave inputs alone and outputs right?"""
    request.node.grade(kbench_case)


FUNCTIONS = {"build": build, "correct": correct, "contract": contract}
RUN: pytest.StashKey[Run] = pytest.StashKey()
