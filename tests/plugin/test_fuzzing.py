"""Fuzzing as people run it: how much, from which seed, what a failure says, and what is tried first the next time."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from pytest_kbench.checks import fuzz

FUZZ = "--kbench-checks=build,fuzz"
TASK = '''
"""Doubling."""
from pytest_kbench import Task, Tensor


def twice(x):
    return x * 2


task = Task(
    twice,
    args=[Tensor("x", "rows columns")],
    shapes={"odd": dict(rows=3, columns=65)},
    fuzz=dict(rows="0..64", columns="0..512"),
)
'''
WRONG = "def twice(x):\n    return x * 2 if x.shape[1] % 8 != 5 else x * 3\n"


@pytest.fixture
def fuzzed(project, monkeypatch):
    monkeypatch.setattr(fuzz, "SHRINK_SECONDS", 60.0)  # enough on a busy machine, too
    project.write("tasks/twice.py", TASK)
    return project


def records(project, name="results.json"):
    document = json.loads((project.path / name).read_text())
    return [record for record in document["records"] if record["check"] == "fuzz"]


def case_in(result) -> str:
    return re.search(r"'--kbench-case=([^']*)'", result.stdout.str())[1]


def test_a_search_is_one_item_and_its_examples_stand_in_the_table(fuzzed):
    fuzzed.candidates("right.py")
    result = fuzzed.grade(FUZZ, "--kbench-examples=23", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*::fuzz[[]right.py[]] PASSED*", "task *candidate *build *fuzz *verdict"])
    result.stdout.re_match_lines([r"twice +right.py +ok +23 +passed"])


def test_a_failure_is_small_and_ends_in_a_line_that_fails_in_the_same_way(fuzzed):
    fuzzed.write("candidates/twice/mine.py", WRONG)
    result = fuzzed.grade(FUZZ, "--kbench-examples=100")
    assert result.ret == 1
    result.stdout.re_match_lines([r"twice +mine.py +ok +FAILED +FAILED: wrong"])
    lines = result.outlines
    first = next(index for index, line in enumerate(lines) if line.startswith("wrong: "))
    command = next(line for line in lines[first:] if line.startswith("pytest "))
    assert re.search(r"dims\(rows=1,columns=5\) dtype\(float32\) seed\(\w+\)'", command)
    again = fuzzed.run(*shlex.split(command)[1:])
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines([lines[first]])


def test_hypothesis_gives_no_advice_about_our_source(fuzzed):
    fuzzed.write("candidates/twice/mine.py", WRONG)
    said = fuzzed.grade(FUZZ, "--kbench-examples=50", "-v").stdout.str()
    for word in ("Falsifying", "reproduce_failure", "@settings", "@seed", "Hypothesis found", "Traceback", "given("):
        assert word not in said


@pytest.mark.parametrize("ci", [False, True], ids=["alone", "ci"])
def test_a_seed_reproduces_the_search_and_every_run_has_a_fresh_one(fuzzed, monkeypatch, ci):
    for name in ("CI", "GITHUB_ACTIONS"):
        monkeypatch.setenv(name, "true") if ci else monkeypatch.delenv(name, raising=False)
    source = "def twice(x):\n    return x * 2 if x.shape[1] % 8 != 5 else x * 2.001\n"
    fuzzed.write("candidates/twice/mine.py", source)
    found = []
    for index, option in enumerate(["--kbench-seed=5", "--kbench-seed=5", "--hypothesis-seed=5", "--kbench-seed=6"]):
        fuzzed.grade(FUZZ, option, "--kbench-report=results.json", "-p", "no:cacheprovider", "--kbench-examples=200")
        (record,) = records(fuzzed)
        found.append((record["case"], record["facts"]["examples"]))
        (fuzzed.path / "results.json").rename(fuzzed.path / f"{index}.json")
    assert found[0] == found[1] == found[2]
    assert found[0][1] != found[3][1]


def test_workers_search_as_one_process_does(fuzzed):
    fuzzed.write("candidates/twice/mine.py", WRONG)
    fuzzed.candidates("right.py")
    options = (FUZZ, "--kbench-seed=5", "-p", "no:cacheprovider")
    fuzzed.grade(*options, "--kbench-report=serial.json")
    fuzzed.grade(*options, "--kbench-report=workers.json", "-n2")
    serial, spread = (
        {
            each["candidate"]: (each["status"], each.get("case"), each["facts"]["examples"])
            for each in records(fuzzed, name)
        }
        for name in ("serial.json", "workers.json")
    )
    assert serial == spread


def test_what_failed_is_tried_first_until_it_passes(fuzzed):
    path = fuzzed.write("candidates/twice/mine.py", WRONG)
    case = case_in(fuzzed.grade(FUZZ, "--kbench-examples=100"))
    again = fuzzed.grade(FUZZ, "--kbench-examples=1")
    again.assert_outcomes(passed=1, failed=1)
    assert case_in(again) == case
    again.stdout.fnmatch_lines(["it failed in an earlier run too"])
    path.write_text("def twice(x):\n    return x * 2\n")
    fuzzed.grade(FUZZ, "--kbench-examples=1").assert_outcomes(passed=2)
    path.write_text(WRONG)
    fuzzed.grade(FUZZ, "--kbench-examples=1", "--kbench-seed=1").assert_outcomes(passed=2)


def test_a_cache_that_somebody_wrote_nonsense_into_is_ignored(fuzzed):
    fuzzed.candidates("right.py")
    fuzzed.write(".pytest_cache/v/kbench/fuzz", '{"twice/right.py/fuzz": "dims(", "twice/mine.py/fuzz": 3}')
    fuzzed.grade(FUZZ).assert_outcomes(passed=2)
    fuzzed.write(".pytest_cache/v/kbench/fuzz", '{"twice/right.py/fuzz": "dims(n=3) dtype(float32) seed(1)"}')
    fuzzed.grade(FUZZ).assert_outcomes(passed=2)
    fuzzed.write(".pytest_cache/v/kbench/fuzz", "[1")
    fuzzed.grade(FUZZ).assert_outcomes(passed=2)


@pytest.mark.parametrize(("profile", "examples"), [("kbench", 200), ("kbench-ci", 500)])
def test_a_profile_says_how_many_examples(fuzzed, profile, examples):
    fuzzed.pytester.makeini("[pytest]\n")
    fuzzed.candidates("right.py")
    result = fuzzed.grade(FUZZ, f"--hypothesis-profile={profile}")
    result.stdout.re_match_lines([rf"twice +right.py +ok +{examples} +passed"])


def test_a_profile_that_is_none_of_ours_is_a_usage_error(fuzzed):
    result = fuzzed.grade("--hypothesis-profile=kbench-fast")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --hypothesis-profile=kbench-fast: ours are kbench, kbench-ci, kbench-deep"])


def test_a_condition_that_hardly_any_shape_keeps_is_told(fuzzed):
    text = TASK.replace(
        'fuzz=dict(rows="0..64"', 'where="rows * 1009 == columns * 1013",\n    fuzz=dict(rows="1..4000"'
    )
    text = text.replace('columns="0..512"', 'columns="1..4000"').replace(
        "rows=3, columns=65", "rows=1013, columns=1009"
    )
    fuzzed.write("tasks/twice.py", text)
    fuzzed.candidates("right.py")
    result = fuzzed.grade(FUZZ, "--kbench-examples=5")
    result.stdout.re_match_lines([r"twice +right.py +ok +5 +passed, fuzzed in named shapes alone: .*"])


def test_the_option_outweighs_the_profile(fuzzed):
    fuzzed.candidates("right.py")
    result = fuzzed.grade(FUZZ, "--hypothesis-profile=kbench-deep", "--kbench-examples=7")
    result.stdout.re_match_lines([r"twice +right.py +ok +7 +passed"])


@pytest.mark.parametrize("given", ["0", "-3", "many", "1e3", "99999999", ""])
def test_a_number_of_examples_that_is_none_is_a_usage_error(fuzzed, given):
    result = fuzzed.grade(f"--kbench-examples={given}")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: --kbench-examples={given}: a whole number from 1 to 1,000,000 is needed"])
