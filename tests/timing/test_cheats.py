"""Candidates that want to seem faster than they are: each fails, or gains nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_kbench import Grader, Settings
from pytest_kbench.record import Record

HERE = Path(__file__).parent
TASKS = HERE.parent.parent / "tasks"


# One of each kind; the others are slow, as each has the machine for itself for some seconds.
QUICK = (
    *("thread_fills_later.py", "patched_clock.py", "knows_when_it_is_timed.py", "writes_over_its_input.py"),
    *("early_start.py", "claims_what_it_saves.py"),
)


def candidates(folder: str) -> list[pytest.ParameterSet]:
    found = sorted(each for each in (HERE / folder).glob("*/*") if each.suffix in (".py", ".cpp"))
    return [pytest.param(each, id=each.name, marks=[] if each.name in QUICK else [pytest.mark.slow]) for each in found]


def expected(path: Path) -> list[str]:
    """The reasons that the first line allows."""
    found = re.match(r"(?:#|//) verdict: ([a-z_|]+)\n", path.read_text())
    assert found, path
    return found[1].split("|")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(Settings(seed=0, baselines=("eager",), budget=0.3)) as grader:
        yield grader


def timed(grader: Grader, path: Path) -> Record:
    return grader.grade(TASKS / f"{path.parent.name}.py", path, checks=["speed"]).records[0]


@pytest.mark.parametrize("path", candidates("cheats"))
def test_a_cheat_fails_while_it_is_timed(grader, path):
    record = timed(grader, path)
    assert all(timing.speed != "faster" for timing in record.timings)
    outcome = str(record.reason) if record.status == "failed" else record.status
    if record.status == "failed" or "clock" not in expected(path):
        assert outcome in expected(path), record.message
    elif "passed" not in expected(
        path
    ):  # a slow or busy machine gives too few blocks to prove anything by: then nothing is said of the speed
        assert all(timing.speed == "ambiguous" for timing in record.timings), record.message


@pytest.mark.parametrize("path", candidates("idle"))
def test_what_it_does_beside_its_work_gains_nothing(grader, path):
    record = timed(grader, path)
    assert record.reason is None or str(record.reason) == "clock", record.message
    assert all(timing.speed != "faster" for timing in record.timings), record.message


@pytest.mark.parametrize("name", ["naive.cpp", "eager.py", "torch_form.cpp"])
def test_an_honest_candidate_is_timed_in_every_form(grader, name):
    record = timed(grader, TASKS.parent / "candidates" / "softmax" / name)
    assert record.status == "passed", record.message
    assert record.timings[0].blocks > 0


def test_a_gross_lie_is_proven_on_a_busy_machine_too(grader):
    path = HERE / "cheats" / "softmax" / "claims_nothing.py"
    settings = Settings(seed=0, baselines=("eager",), budget=2.0)
    (record,) = grader.grade(TASKS / "softmax.py", path, checks=["speed"], settings=settings).records
    assert (record.status, str(record.reason)) == ("failed", "clock"), record.message
