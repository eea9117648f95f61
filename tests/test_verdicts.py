"""Honest candidates pass; wrong ones and cheats get the verdict that their first line says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_kbench import Grader, Settings

HERE = Path(__file__).parent
TASKS = HERE.parent / "tasks"
HONEST = sorted(path for path in (HERE / "honest").glob("*/*") if path.suffix in (".py", ".cpp"))
WRONG = sorted(path for path in (HERE / "wrong").glob("*/*") if path.suffix in (".py", ".cpp"))
SHIPPED = sorted(path for path in (HERE.parent / "candidates").glob("*/*") if path.suffix in (".py", ".cpp"))


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.fixture(scope="module")
def grader():
    with Grader(Settings(timeout=5.0, max_failures=1, memory=8 << 30)) as grader:
        yield grader


def task_of(path: Path) -> Path:
    return TASKS / f"{path.parent.name}.py"


@pytest.mark.parametrize("path", [*HONEST, *SHIPPED], ids=named)
def test_an_honest_candidate_passes(grader, path):
    verdict = grader.grade(task_of(path), path)
    assert verdict.outcome == "passed", verdict.message


@pytest.mark.parametrize("path", WRONG, ids=named)
def test_a_wrong_candidate_gets_its_verdict(grader, path):
    expected = re.match(r"(?:#|//) verdict: (\S+)", path.read_text())[1].split("|")
    verdict = grader.grade(task_of(path), path)
    assert verdict.outcome == "failed", "it passed"
    assert verdict.reason in expected, verdict.message
