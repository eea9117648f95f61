"""Fixtures for people's own tests. They work in every pytest run, with or without `--kbench`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from .options import CheckName, Settings

if TYPE_CHECKING:
    from .record import Verdict


class Grade(Protocol):
    """What `kbench_grade` is."""

    def __call__(
        self,
        task: Path | str,
        candidate: Path | str,
        *,
        checks: Sequence[CheckName] | None = None,
        cases: Sequence[str] | None = None,
        settings: Settings | None = None,
    ) -> Verdict:
        """Grade a candidate, as `pytest_kbench.grade` does; paths are relative to the rootdir."""


SETTINGS: pytest.StashKey[Callable[[], Settings]] = pytest.StashKey()  # reads what the run was given; set by the plugin


@pytest.fixture(scope="session")
def kbench_grade(pytestconfig: pytest.Config) -> Grade:
    """Grade candidates from an ordinary test: `kbench_grade("tasks/softmax.py", "candidates/softmax/mine.py")`.

    Its arguments are those of `pytest_kbench.grade`, and so is the `Verdict` that it returns; relative paths are taken
    from the rootdir, and settings, where none are given, from the command line and the configuration file. The
    candidate runs in the sandbox.
    """
    from . import grader

    try:
        own = pytestconfig.stash[SETTINGS]()
    except pytest.UsageError as error:
        pytest.fail(str(error), pytrace=False)
    root = pytestconfig.rootpath

    def grade(
        task: Path | str,
        candidate: Path | str,
        *,
        checks: Sequence[CheckName] | None = None,
        cases: Sequence[str] | None = None,
        settings: Settings | None = None,
    ) -> Verdict:
        return grader.grade(root / task, root / candidate, checks=checks, cases=cases, settings=settings or own)

    return grade
