"""The hooks of a `--kbench` run: what is collected, what comes back from every worker, reports, and the exit code."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import benchmark
from .candidate import escaped, printable
from .case import CaseError
from .collect import AUDITED, CASE, MISSING, PROBLEM, RECORD, Broken, TaskItem, TaskModule, Told, planned_of
from .environment import environment
from .formats import native
from .gate import nowhere, required
from .options import BENCHMARK, MIN_SPEEDUP, REPORT, REQUIRE_DEVICE, SHAPES
from .options import CASE as OF_A_CASE
from .record import Reason, Record
from .report import curves, terminal
from .report import json as document
from .report.progress import Progress
from .report.summary import summary
from .run import RUN, Run

if TYPE_CHECKING:
    from .audit.result import Audit
    from .sandbox.host import LayerReport
    from .task import Task

WHOLE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)  # it came to its end
SAVE_SECONDS = 5.0  # how much of a run's results may be lost when it is killed


class Session:
    """The hooks of a `--kbench` run, registered only then."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        self.config, self.run = config, run
        self.records: list[Record] = []
        self.problems: list[dict[str, str]] = []
        self.missing: list[str] = []
        self.audits: list[Audit] = []
        self.ordinary = 0
        self.layers: LayerReport | None = None
        self._environment: dict[str, object] = {}
        self._saved = 0.0
        self._unwritten: dict[Path, str] = {}
        self._progress: Progress | None = None
        config.stash[RUN] = run

    @property
    def _is_worker(self) -> bool:
        return hasattr(self.config, "workerinput")

    # Collection.

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
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """A failing item for every candidate folder whose task is nowhere, or is none.

        Raises `UsageError` for a `--kbench-case` that fits no task, and for a gate or a sweep that means none.
        """
        tasks = {module.path for item in items if (module := item.getparent(TaskModule)) is not None}
        named = [Path(str(each)) for each in self.config.args]
        whole = [each for each in named if each.is_dir()]
        for folder in self._folders():
            places = {path.parent for path in tasks} | set(whole) if whole else {path.parent for path in named}
            files = [file for place in places if (file := place / f"{folder.name}.py").is_file()]
            if tasks and whole and not files:
                items.append(self._without_task(session, folder))
            elif files and (whole or files[0] in named) and _misnames_its_task(files):
                items.append(self._no_task(session, folder, files[0]))
        planned = [each.task for item in items if (each := planned_of(item))]
        if self.run.case is not None and not self._is_worker:
            _require_fit(self.run, planned)
        if (problem := _meant_nowhere(self.run, planned)) is None:
            return
        if not self._is_worker:
            raise pytest.UsageError(problem)
        items[:] = [Broken.from_parent(session, name="options", nodeid="options", problem=f"usage: {problem}")]

    def _folders(self) -> list[Path]:
        try:
            return sorted(each for each in self.run.candidates.iterdir() if each.is_dir() and each.name[0] not in "_.")
        except OSError:
            return []

    def _without_task(self, session: pytest.Session, folder: Path) -> pytest.Item:
        fix = "Rename the folder after a task file, or remove it"
        problem = f"candidates: {printable(folder)}: there is no task {printable(folder.name)}. {fix}"
        name = f"candidates[{escaped(folder.name)}]"
        return Broken.from_parent(session, name=name, nodeid=name, problem=problem)

    def _no_task(self, session: pytest.Session, folder: Path, file: Path) -> pytest.Item:
        fix = f"Write `task = Task(...)` in it, or rename the folder of candidates {printable(folder)}"
        problem = f"task: {printable(file)}: its top level binds no `task` to a call of Task. {fix}"
        name = f"candidates[{escaped(folder.name)}]"
        return Broken.from_parent(session, name=name, nodeid=name, problem=problem)

    # The run.

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Start building what will be graded: several at once, and each worker somewhere else."""
        if self.config.option.collectonly or getattr(self.config.option, "numprocesses", None):
            return
        planned = {(each.task, each.candidate): None for item in session.items if (each := planned_of(item))}
        jobs = list(planned)
        number = int(re.sub(r"\D", "", getattr(self.config, "workerinput", {}).get("workerid", "")) or 0)
        middle = number * len(jobs) // max(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), 1) % (len(jobs) or 1)
        for task, candidate in (*jobs[middle:], *jobs[:middle]):
            self.run.grader.build_ahead(task, candidate)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        """What a candidate left running stands still when the next test is not its own."""
        result = yield
        here, there = planned_of(item), planned_of(nextitem)
        if here is not None and (there is None or there.candidate != here.candidate):
            self.run.rest()
        return result

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell of a case that takes long, here or in a worker: a build, most of the time."""
        if self._progress is not None:
            self._progress.start(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """It has ended."""
        if self._progress is not None:
            self._progress.end(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Find out which layers of the sandbox hold here; with `--kbench-sandbox=strict` all must."""
        if self.config.option.collectonly or self._is_worker:
            return
        from .grader import PROBLEMS

        self._progress = Progress()
        try:
            self.layers = self.run.grader.layers()
            if getattr(self.config.option, "numprocesses", None):
                self.run.close()  # the workers have graders of their own
        except PROBLEMS as error:
            raise pytest.UsageError(f"--kbench: {error}") from None
        if self.layers.refused and self.run.settings.sandbox == "strict":
            raise pytest.UsageError(f"--kbench-sandbox=strict: {terminal.missing(self.layers.refused)}")
        if self.run.reports:
            self._environment = environment(
                self.config.invocation_params.args,
                self.run.settings.seed,
                self.run.settings.device,
                (self.layers.active, self.layers.refused),
            )
            self._save(complete=False)
            if self._unwritten:
                path, why = next(iter(self._unwritten.items()))
                raise pytest.UsageError(f"{REPORT}={path}: it cannot be written ({why})")

    def pytest_report_header(self) -> list[str]:
        """Device, seed, and how well candidates are locked up: what a reader needs to judge and to repeat the run."""
        lines = [f"kbench: device {self.run.settings.device}, seed {self.run.settings.seed:x}"]
        if self.layers is not None:
            lines.append(f"kbench: {terminal.layers(self.layers.active, self.layers.refused)}")
        if (wanted := required(self.run.settings.min_speedup)) is not None and wanted.ratio:
            strictly = ", strict" if self.run.settings.strict else ""
            lines.append(f"kbench: gate {wanted.told}{strictly}")
        return lines

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the records, from this process and from workers."""
        properties = {name: str(value) for name, value in report.user_properties}
        if not properties.keys() & {CASE, RECORD, PROBLEM, TaskItem.PROPERTY}:
            self.ordinary += report.when == "setup"
            return
        if isinstance(report.longrepr, str):  # a worker sends a failure as text, without its headline
            report.longrepr = Told(report.longrepr)  # type: ignore[assignment]  # as repr_failure gives it
        if report.when == "call" and RECORD in properties:
            self.records.append(Record.from_json(json.loads(properties[RECORD])))
        elif report.when == "call" and PROBLEM in properties:
            self.problems.append({"item": report.nodeid, "message": properties[PROBLEM]})
        elif report.when == "call" and AUDITED in properties:
            from .audit.result import Audit  # with --kbench-audit alone

            self.audits.append(Audit.from_json(json.loads(properties[AUDITED])))
        elif report.when == "call" and MISSING in properties:
            self.missing.append(f"{properties[TaskItem.PROPERTY]}: {properties[MISSING]}")
        if time.monotonic() > self._saved + SAVE_SECONDS:
            self._save(complete=False)

    # The end.

    @pytest.hookimpl(wrapper=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
        """The table, last, where people look for it; also where pytest-benchmark ends the run with its own word."""
        try:
            yield
        finally:
            self._tell(terminalreporter)

    def _tell(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.audits:
            from .report import audit

            terminalreporter.section("kbench audit")
            for line in (*audit.table(self.audits, self.run.least_score), *audit.survivors(self.audits)):
                terminalreporter.line(line)
        if self.records or self.missing:
            terminalreporter.section("kbench")
        times, speed = terminal.timed(self.records), summary(self.records)
        table = terminal.table(self.records) if self.records else ()
        speeds = terminal.speeds(speed) if speed is not None else ()
        curved = curves.lines(curves.curves(self.records))
        for line in (*table, *((times,) if times else ()), *speeds, *curved, *self.missing):
            terminalreporter.line(line)
        if self._device_missing():
            terminalreporter.line(f"{REQUIRE_DEVICE}={self.run.required_device}: there is none here", red=True)
        for path in self.run.reports if self._environment else ():
            why = self._unwritten.get(path)
            told = f"{path} could not be written ({why})" if why else f"wrote {path}"
            terminalreporter.line(f"kbench: {told}", red=bool(why))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Exit 3 for a bug of ours; 5 when nothing was graded; then the verdicts, for hooks and files."""
        self.run.close()
        if self._progress is not None:
            self._progress.close()
        if self._is_worker or self.config.option.collectonly:
            return
        session.exitstatus = self._exit_code(exitstatus)
        self.run.failing.keep(self.records)
        stopped = session.shouldstop or session.shouldfail or exitstatus not in WHOLE
        self._save(complete=not stopped, exit_code=session.exitstatus)
        for (task, candidate), verdict in document.by_candidate(self.records).items():
            self.config.hook.pytest_kbench_verdict(task=task, candidate=candidate, verdict=verdict, config=self.config)

    def _exit_code(self, exitstatus: int) -> int:
        bug = any(record.reason is Reason.INTERNAL for record in self.records)
        graded = bool(self.audits) or any(record.status != "skipped" for record in self.records)
        if bug and exitstatus == pytest.ExitCode.TESTS_FAILED:
            return pytest.ExitCode.INTERNAL_ERROR
        if exitstatus == pytest.ExitCode.OK and self._device_missing():
            return pytest.ExitCode.TESTS_FAILED
        if exitstatus == pytest.ExitCode.OK and not self.ordinary and not graded:
            return pytest.ExitCode.NO_TESTS_COLLECTED
        return exitstatus

    def _device_missing(self) -> bool:
        required = self.run.required_device
        return required is not None and required != self.run.settings.kind

    def _save(self, *, complete: bool, exit_code: int | None = None) -> None:
        """Write the reports; what goes wrong is kept, to be told."""
        self._saved = time.monotonic()
        if not self._environment:
            return
        data = document.document(
            self._environment, self.records, self.problems, self.audits, complete=complete, exit_code=exit_code
        )
        self._unwritten.clear()
        begun = str(self._environment["time"])
        for path in self.run.reports:
            theirs = path.name.endswith(BENCHMARK)
            try:
                document.write(path, benchmark.document(self.config, self.records, begun) if theirs else data)
            except OSError as error:
                self._unwritten[path] = error.strerror or str(error)


def _misnames_its_task(files: Sequence[Path]) -> bool:
    """Whether none of these is a task file, and the first one makes a task all the same."""
    return not any(map(native.is_task_file, files)) and native.mentions_task(files[0])


def _require_fit(run: Run, tasks: Sequence[Task]) -> None:
    """Raise `UsageError` for a case that none of these tasks can be asked."""
    from .oracle.inputs import require_fit

    problems = []
    for task in tasks:
        try:
            for call in () if run.case is None else run.case.calls:
                require_fit(task, call, run.settings.device)
        except CaseError as error:
            problems.append(error)
        else:
            return
    if problems:
        raise pytest.UsageError(f"{OF_A_CASE}: {problems[0]}")


def _meant_nowhere(run: Run, tasks: Sequence[Task]) -> str | None:
    """What is wrong with a gate, or a sweep, that means none of these tasks. In a run with workers these find out."""
    if (problem := nowhere(run.settings, tasks)) is not None:
        return f"{MIN_SPEEDUP}={problem}"
    names = dict.fromkeys(name for task in tasks for name in task.fuzz)
    for each in run.settings.shapes if names else ():
        if each.dimension not in names:
            known = f"choose from {', '.join(names)}"
            return f"{SHAPES}={each}: no task draws {each.dimension} in fuzz=; {known}"
    return None


def _is_pytests_own(path: Path, parent: pytest.Collector) -> bool:
    """Whether pytest's own python plugin collects the file: then `pytest_pycollect_makemodule` is asked."""
    return parent.session.isinitpath(path) or any(path.match(each) for each in parent.config.getini("python_files"))
