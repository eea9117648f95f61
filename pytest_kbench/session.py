"""The hooks of a `--kbench` run: what is collected, what comes back from every worker, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .collect import TaskModule
from .formats import native
from .record import Reason, Record
from .report import terminal
from .run import RUN, Run

if TYPE_CHECKING:
    from .sandbox.host import LayerReport


class Session:
    """The hooks of a `--kbench` run, registered only then."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        self.config, self.run = config, run
        self.records: list[Record] = []
        self.ordinary = 0
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
            if getattr(self.config.option, "numprocesses", None):
                self.run.close()  # the workers have graders of their own
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
        properties = dict(report.user_properties)
        if not any(name.startswith("kbench") for name in properties):
            self.ordinary += report.when == "setup"
        elif report.when == "call" and "kbench" in properties:
            self.records.append(Record.from_json(json.loads(str(properties["kbench"]))))

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
        bug = any(record.reason is Reason.INTERNAL for record in self.records)
        if bug and exitstatus == pytest.ExitCode.TESTS_FAILED:
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
    return parent.session.isinitpath(path) or any(path.match(each) for each in parent.config.getini("python_files"))
