"""Hooks for a `conftest.py`: more candidates, another tolerance, more cases, build flags, what to do with verdicts.

They are called under `--kbench` only. The example in each docstring is a whole `conftest.py`; the test suite runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .candidate import Candidate
    from .options import CheckName
    from .record import Verdict
    from .task import Task


@pytest.hookspec
def pytest_kbench_candidates(task: Task, config: pytest.Config) -> Sequence[Path]:  # type: ignore[empty-body]
    """Candidates of a task that do not lie in its folder: files, or folders of sources.

    Called for every task while it is collected. What all implementations return is graded beside what the folder
    holds; a path that is no candidate is one failing item. Two candidates of one task need different names.

    Example: kernels that another tool writes to `generated/<task>_*.py`::

        def pytest_kbench_candidates(task, config):
            return sorted((config.rootpath / "generated").glob(f"{task.name}_*.py"))
    """


@pytest.hookspec(firstresult=True)
def pytest_kbench_tolerance(task: Task, config: pytest.Config) -> float | Mapping[str, float] | None:
    """Another tolerance than the task's own: one number for rtol and atol, or a dict as `Task.tolerance` takes it.

    Called for every task while it is collected; the first answer that is not `None` counts. `--kbench-tolerance`
    overrides it.

    Example: a fixed rule for tasks that come from a benchmark which has it::

        def pytest_kbench_tolerance(task):
            return 1e-4 if task.name.startswith("twice") else None
    """


@pytest.hookspec
def pytest_kbench_cases(  # type: ignore[empty-body]
    task: Task, check: CheckName, config: pytest.Config
) -> Mapping[str, str]:
    """Further cases of a check: their ids, and texts as `--kbench-case` takes them.

    Called for every task and every check but `build` while it is collected. Such a case has the same seed in every run,
    the one in its text.

    Example: a case that once found a bug, kept::

        def pytest_kbench_cases(task, check):
            if task.name == "twice" and check == "correct":
                return {"issue-17": "dims(rows=7,columns=129) dtype(float32) layout(x=sliced) seed(17)"}
            return {}
    """


@pytest.hookspec
def pytest_kbench_build_flags(  # type: ignore[empty-body]
    task: Task, candidate: Candidate, config: pytest.Config
) -> Sequence[str]:
    """Further compiler flags for a candidate in C++, after the default ones and before those that its source asks for.

    The same list of allowed flags holds as for `// kbench: flags=`. Called for every candidate while it is collected.

    Example: a definition that all kernels of a project rely on::

        def pytest_kbench_build_flags(task, candidate):
            return ["-DTILE=64"] if candidate.language == "cpp" else []
    """


@pytest.hookspec
def pytest_kbench_verdict(task: str, candidate: str, verdict: Verdict, config: pytest.Config) -> None:
    """A candidate was graded: its verdict over all cases of this run, with their records.

    Called once per candidate when the run is over, in the process that reports (under xdist: the controller), also when
    the run was interrupted; then with the records that there are.

    Example: one line per candidate in a file of one's own::

        def pytest_kbench_verdict(task, candidate, verdict, config):
            with open(config.rootpath / "verdicts.txt", "a") as file:
                print(task, candidate, verdict.outcome, verdict.reason, file=file)
    """
