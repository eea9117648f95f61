"""Fixtures for people's own tests. They work in every pytest run, with or without `--kbench`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from .options import CheckName, Settings
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


@pytest.fixture(scope="session")
def kbench_grade(pytestconfig: pytest.Config) -> Iterator[Grade]:
    """Grade candidates from an ordinary test: `kbench_grade("tasks/softmax.py", "candidates/softmax/mine.py")`.

    Its arguments are those of `pytest_kbench.grade`, and so is the `Verdict` that it returns; relative paths are taken
    from the rootdir. The candidate runs in the sandbox. One grader serves the whole session and ends with it.
    """
    from .grader import Grader

    with Grader() as grader:

        def grade(
            task: Path | str,
            candidate: Path | str,
            *,
            checks: Sequence[CheckName] | None = None,
            cases: Sequence[str] | None = None,
            settings: Settings | None = None,
        ) -> Verdict:
            root = pytestconfig.rootpath
            return grader.grade(root / task, root / candidate, checks=checks, cases=cases, settings=settings)

        yield grade
