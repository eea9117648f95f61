"""One `--kbench` run inside pytest: its settings, its grader, and the records that come back from every worker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .case import Case, NamedCase
from .collect import RUN, Planned, TaskModule
from .formats import native
from .options import Settings
from .record import CheckName, Reason, Record
from .report import terminal

if TYPE_CHECKING:
    from .grader import Grader, Patience
    from .sandbox.host import LayerReport
    from .task import Task

FULL_FAILURES = 3


class Run:
    """What a run's items share. The grader starts at the first case; torch is not imported before a task needs it."""

    def __init__(self, settings: Settings, case: Case | None) -> None:
        self.settings = settings
        self.case = case
        self._grader: Grader | None = None
        self._patience: dict[Path, Patience] = {}
        self._given_up: dict[Path, Planned] = {}
        self._failures: Counter[tuple[Path, CheckName]] = Counter()

    @property
    def grader(self) -> Grader:
        """The run's grader."""
        if self._grader is None:
            from .grader import Grader

            self._grader = Grader(self.settings)
        return self._grader

    def close(self) -> None:
        """End every process that was started."""
        if self._grader is not None:
            self._grader.close()

    def cases(self, task: Task, check: CheckName) -> tuple[NamedCase, ...]:
        """What a check grades: its own cases; or the one of `--kbench-case`, in the first check that takes cases."""
        from .grader import CHECK_MODULES

        if self.case is not None:
            taker = next((each for each in self.settings.checks if each != "build"), None)
            return (NamedCase("case", self.case),) if check == taker else ()
        planned: tuple[NamedCase, ...] = CHECK_MODULES[check].cases(task, self.settings)
        return planned

    def grade(self, planned: Planned) -> Record:
        """The record of one item. What gives a candidate up is told once; its other items are skipped."""
        from .grader import PROBLEMS, Patience

        task, candidate, check = planned.task.name, planned.candidate, planned.check
        last = self._given_up.get(candidate.path)
        if last is not None and last != planned:
            seen = f"see {last.check}[{last.id}]"
            return Record(task, candidate.name, check, "skipped", Reason.GIVEN_UP, seen)
        cases = None if check == "build" else (planned.named,)
        try:
            record = self.grader.grade(planned.task, candidate, checks=(check,), cases=cases).records[0]
        except PROBLEMS as error:
            record = Record(task, candidate.name, check, "failed", Reason.ENVIRONMENT, f"environment: {error}")
        patience = self._patience.setdefault(candidate.path, Patience(self.settings.max_failures))
        if patience.lost(record):
            self._given_up[candidate.path] = planned
        return record

    def text(self, planned: Planned, record: Record) -> str:
        """A failure's text: in full for the first few of a candidate's check, then its verdict alone."""
        key = (planned.candidate.path, planned.check)
        self._failures[key] += 1
        return record.message if self._failures[key] <= FULL_FAILURES else record.message.partition("\n")[0]


class Session:
    """The hooks of a `--kbench` run, registered only then."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        self.config, self.run = config, run
        self.records: list[Record] = []
        self.ordinary = 0
        self.bugs = 0
        self.layers: LayerReport | None = None
        config.stash[RUN] = run

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> TaskModule | None:
        """Task files that pytest would not collect by itself."""
        if file_path.suffix != ".py" or _is_pytests_own(file_path, parent) or not native.is_task_file(file_path):
            return None
        return TaskModule.from_parent(parent, path=file_path)

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> TaskModule | None:
        """Task files that pytest would collect as test modules: named on the command line, or like `test_*.py`."""
        if not native.is_task_file(module_path):
            return None
        return TaskModule.from_parent(parent, path=module_path)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """The cases of our own check functions."""
        parent = metafunc.definition.parent
        if isinstance(parent, TaskModule) and "kbench_case" in metafunc.fixturenames:
            parent.parametrize(metafunc)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Find out which layers of the sandbox hold here; with `--kbench-sandbox=strict` all must."""
        if self.config.option.collectonly or hasattr(self.config, "workerinput"):
            return
        from .grader import PROBLEMS

        try:
            self.layers = self.run.grader.layers()
        except PROBLEMS as error:
            raise pytest.UsageError(f"--kbench: {error}") from None
        if self.layers.refused and self.run.settings.strict_sandbox:
            raise pytest.UsageError(f"--kbench-sandbox=strict: {terminal.missing(self.layers.refused)}")

    def pytest_report_header(self) -> list[str]:
        """Device, seed, and how well candidates are locked up: what a reader needs to judge and to repeat the run."""
        lines = [f"kbench: device {self.run.settings.device}, seed {self.run.settings.seed:x}"]
        if self.layers is not None:
            lines.append(f"kbench: {terminal.layers(self.layers.active, self.layers.refused)}")
        return lines

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the records, from this process and from workers."""
        if "kbench" not in report.keywords:
            self.ordinary += report.when == "call"
            return
        texts = [value for name, value in report.user_properties if name == "kbench"]
        if report.when == "call":
            self.records += [Record.from_json(json.loads(str(text))) for text in texts]
            self.bugs += report.failed and not any(name.startswith("kbench") for name, _ in report.user_properties)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The table."""
        if self.records:
            terminalreporter.section("kbench")
            for line in terminal.table(self.records):
                terminalreporter.line(line)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Exit 3 for a bug of ours; 5 when nothing was graded."""
        self.run.close()
        if self.bugs and exitstatus == pytest.ExitCode.TESTS_FAILED:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        elif (
            exitstatus == pytest.ExitCode.OK
            and not self.ordinary
            and not self.config.option.collectonly
            and not self._graded()
        ):
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED

    def _graded(self) -> bool:
        return any(record.status != "skipped" for record in self.records)


def _is_pytests_own(path: Path, parent: pytest.Collector) -> bool:
    """Whether pytest's own python plugin collects the file: then `pytest_pycollect_makemodule` is asked."""
    patterns: Iterator[str] = iter(parent.config.getini("python_files"))
    return parent.session.isinitpath(path) or any(path.match(pattern) for pattern in patterns)
