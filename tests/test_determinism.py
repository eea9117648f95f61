"""Repeats of a call, compared bit by bit: a difference is told, and fails only where the task asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kbench import Grader, Reason, Task, Tensor
from pytest_kbench.checks.determinism import cases
from pytest_kbench.options import Settings

STEADY = "def total(x):\n    return x.sum(1)\n"
# Two orders of summation take turns: both are right, and they do not agree in the last place.
RESTLESS = """
_calls = []


def total(x):
    _calls.append(1)
    return x.sum(1) if len(_calls) // 2 % 2 else x.flip(1).cumsum(1)[:, -1]
"""


def total(x):
    return x.sum(1)


def task(**changes) -> Task:
    shapes = {"odd": {"n": 3, "m": 65}, "large": {"n": 64, "m": 1000}}
    return Task(total, args=[Tensor("x", "n m")], shapes=shapes, **changes)


@pytest.fixture(scope="module")
def grader():
    with Grader() as grader:
        yield grader


def graded(grader, tmp_path: Path, text: str, task: Task, **options):
    path = tmp_path / "mine.py"
    path.write_text(text)
    return grader.grade(task, path, checks=["determinism"], **options)


def test_repeats_that_agree_pass(grader, tmp_path):
    verdict = graded(grader, tmp_path, STEADY, task())
    assert verdict.outcome == "passed"
    assert verdict.records[0].facts == {}


def test_repeats_that_differ_pass_and_are_told_with_their_size(grader, tmp_path):
    (record,) = graded(grader, tmp_path, RESTLESS, task()).records
    assert record.status == "passed"
    assert record.message.startswith("not deterministic: repeats of a call differ in ")
    assert " of 128 elements, by at most " in record.facts["repeats"]
    assert 0 < float(record.facts["repeats"].rpartition(" ")[2]) < 1e-3


def test_repeats_that_differ_fail_where_the_task_asks(grader, tmp_path):
    verdict = graded(grader, tmp_path, RESTLESS, task(deterministic=True))
    assert (verdict.outcome, verdict.reason) == ("failed", Reason.NONDETERMINISTIC)
    assert graded(grader, tmp_path, STEADY, task(deterministic=True)).outcome == "passed"


def test_every_repeat_must_be_right(grader, tmp_path):
    late = "_calls = []\n\n\ndef total(x):\n    _calls.append(1)\n    return x.sum(1) * (1 + (len(_calls) == 8))\n"
    verdict = graded(grader, tmp_path, late, task())
    assert (verdict.outcome, verdict.reason) == ("failed", Reason.WRONG)
    assert "in call 8 of 12" in verdict.message


def test_one_call_per_dtype_of_the_largest_shape_is_repeated():
    named = cases(task(dtypes=["float32", "float16"]), Settings())
    assert [each.id for each in named] == ["f32", "f16"]
    assert all(dict(each.case.calls[0].dims)["m"] == 1000 for each in named)


def test_a_case_that_was_asked_for_is_repeated_call_by_call(grader, tmp_path):
    text = "dims(n=2,m=3) dtype(float32) seed(1); dims(n=64,m=1000) dtype(float32) seed(2)"
    (record,) = graded(grader, tmp_path, RESTLESS, task(), cases=[text]).records
    assert record.status == "passed"
    assert " of 132 elements" in record.facts["repeats"]


def test_any_repeat_that_differs_is_noticed(grader, tmp_path):
    late = """
_calls = []


def total(x):
    _calls.append(1)
    return x.sum(1) if len(_calls) != 11 else x.flip(1).cumsum(1)[:, -1]
"""
    (record,) = graded(grader, tmp_path, late, task()).records
    assert record.status == "passed"
    assert "repeats" in record.facts


def test_remembering_the_last_answer_makes_no_repeat(grader, tmp_path):
    memory = """
import torch

_last = []


def total(x):
    if not _last or not torch.equal(_last[0], x):
        _last[:] = [x.clone(), x.sum(1) + 1e-5 * torch.rand(len(x))]
    return _last[1].clone()
"""
    assert graded(grader, tmp_path, memory, task(deterministic=True)).reason == Reason.NONDETERMINISTIC
