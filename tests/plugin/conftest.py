"""A small project: one task, candidates to choose from, and builds shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

import pytest_kbench.grader
import pytest_kbench.session  # noqa: F401 - with torch behind it, which a process cannot import twice

TASK = '''
"""Doubling."""
from pytest_kbench import Task, Tensor


def twice(x):
    return x * 2


task = Task(
    twice,
    args=[Tensor("x", "rows columns")],
    shapes={"odd": dict(rows=3, columns=65), "one": dict(rows=1, columns=1)},
    dtypes=["float32"],
)
'''
CANDIDATES = {
    "right.py": "def twice(x):\n    return x + x\n",
    "wrong.py": "def twice(x):\n    return x * 3\n",
    "broken.py": "import nowhere\n",
    "dense.py": "def twice(x):\n    assert x.is_contiguous(), 'dense only'\n    return x * 2\n",
    "crash.py": "import os, signal\n\n\ndef twice(x):\n    os.kill(os.getpid(), signal.SIGSEGV)\n",
}


# All checks but the one that needs the machine for itself; it has tests of its own.
INI = """[pytest]
kbench_examples = 10
kbench_checks = build,correct,contract,determinism,fuzz,grad,sanitize
"""


class Project:
    """A folder with tasks/ and candidates/, and a way to run pytest in it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester, self.path = pytester, pytester.path
        pytester.makeini(INI)
        self.write("tasks/twice.py", TASK)

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def candidates(self, *names: str) -> None:
        for name in names:
            self.write(f"candidates/twice/{name}", CANDIDATES[name])

    def run(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess(*args)

    def grade(self, *args: str) -> pytest.RunResult:
        return self.run("tasks", "--kbench", *args)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("CI", raising=False)
    return Project(pytester)
