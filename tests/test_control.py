"""A library that is wrong on some machine: nobody is judged where the reference, as a candidate, is wrong too."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kbench import Settings
from pytest_kbench.checks.control import Control
from pytest_kbench.grader import Grader
from pytest_kbench.oracle.inputs import TooLarge
from pytest_kbench.record import Reason

# Such a fault is made here: in a child, which has no arguments on its command line, rows of seven are wrong.
FAULTY = """
import sys


def doubled(x):
    return x * (3 if {where} and sys.argv == [""] else 2)
"""
TASK = """
from pytest_kbench import Task, Tensor

task = Task(doubled, args=[Tensor("x", "rows columns")], shapes=dict(odd=dict(rows=3, columns=7)),
            fuzz=dict(rows="{rows}", columns="1..9"))
"""
SEVENS = "dims(rows=7,columns=5) dtype(float32) seed(1)"
SIXES = "dims(rows=6,columns=5) dtype(float32) seed(1)"


@pytest.fixture(scope="module")
def grader():
    with Grader(Settings(seed=7, examples=60)) as made:
        yield made


@pytest.fixture
def files(tmp_path):
    """Write a task whose reference has the fault `where`, and a candidate; drawn sizes are `rows`."""

    def write(where: str, candidate: str | None = None, rows: str = "1..99") -> tuple[Path, Path]:
        source = FAULTY.format(where=where)
        (tmp_path / "doubled.py").write_text(source + TASK.format(rows=rows))
        (tmp_path / "mine.py").write_text(source if candidate is None else candidate)
        return tmp_path / "doubled.py", tmp_path / "mine.py"

    return write


def test_values_that_the_reference_gives_too_count_for_nothing(grader, files):
    verdict = grader.grade(*files("len(x) == 7"), checks=["fuzz"], cases=[SEVENS, SIXES])
    assert [each.status for each in verdict.records] == ["skipped", "passed"]
    first = verdict.records[0]
    assert first.reason is Reason.TASK
    assert first.message.startswith("the task's reference failed: doubled is wrong here itself, on this machine")
    assert "35 of 35 elements beyond the bound" in first.message


def test_a_kernel_that_is_wrong_where_the_reference_is_right_is_wrong(grader, files):
    task, mine = files("len(x) == 7", "def doubled(x):\n    return x * 3")
    verdict = grader.grade(task, mine, checks=["fuzz"], cases=[SEVENS, SIXES])
    assert [each.status for each in verdict.records] == ["skipped", "failed"]
    assert verdict.reason is Reason.WRONG


def test_a_reference_that_is_wrong_in_every_child_excuses_nobody(grader, files):
    task, mine = files("True", "def doubled(x):\n    return x * 3")
    assert grader.grade(task, mine, checks=["fuzz"], cases=[SEVENS]).reason is Reason.WRONG


def test_a_search_goes_on_beside_a_fault_of_the_library(grader, files):
    verdict = grader.grade(*files("len(x) in (33, 65, 97)"), checks=["fuzz"])
    assert verdict.outcome == "passed", verdict.message
    assert int(verdict.records[-1].facts["excused"]) > 0


def test_a_search_in_which_the_reference_is_often_wrong_judges_nobody(grader, files):
    verdict = grader.grade(*files("len(x) > 3", rows="1..99"), checks=["fuzz"])
    assert verdict.reason is Reason.TASK
    assert "doubled is wrong itself in " in verdict.message


def test_what_goes_wrong_with_the_control_excuses_nobody(grader, files, monkeypatch):
    def fails(*_):
        raise TooLarge("there is no memory left")

    monkeypatch.setattr(Control, "wrong", fails)
    task, mine = files("False", "def doubled(x):\n    return x * 3")
    assert grader.grade(task, mine, checks=["fuzz"], cases=[SEVENS]).reason is Reason.WRONG


def test_fixed_cases_have_a_bound_on_excuses_too(grader, files):
    task, mine = files("len(x) % 3 == 1", "def doubled(x):\n    return x * (1 if len(x) % 3 == 1 else 2)")
    cases = [f"dims(rows={rows},columns=5) dtype(float32) seed(1)" for rows in range(1, 40)]
    verdict = grader.grade(task, mine, checks=["correct"], cases=cases)
    assert verdict.reason is Reason.TASK
