"""Speed items in a run: their ids, their column, the line on how times were taken, and when they are skipped."""

from __future__ import annotations

import json

EAGER = "--kbench-baselines=eager"
SPEED = ("--kbench-checks=build,correct,speed", "--kbench-budget=0.05", EAGER)


def test_speed_items_have_a_column_and_their_times_a_line(project):
    project.candidates("right.py")
    result = project.grade(*SPEED, "-v", "--kbench-report=results.json")
    result.stdout.fnmatch_lines(["tasks/twice.py::speed[[]right.py:odd:f32] PASSED*"])
    result.stdout.fnmatch_lines(["task *candidate *build *correct *speed *verdict", "twice *right.py *ok *passed"])
    result.stdout.fnmatch_lines(["times: against eager, one thread, cold caches, intervals of 99 %;*"])
    records = json.loads((project.path / "results.json").read_text())["records"]
    (timing,) = next(each for each in records if each["check"] == "speed")["timings"]
    assert timing["clock"] == "perf_counter_ns"
    assert timing["samples"]


def test_what_fails_is_not_timed_and_says_why(project):
    project.candidates("wrong.py", "right.py")
    result = project.grade(*SPEED, "-rs", "--kbench-maxfail=0")
    result.stdout.fnmatch_lines(["SKIPPED*not_timed: correct failed: wrong"])
    result.stdout.fnmatch_lines(["twice *right.py *passed*", "twice *wrong.py *ok */165 *- *FAILED: wrong"])


def test_a_speed_item_is_run_again_by_the_line_that_it_prints(project):
    project.write("candidates/twice/lazy.py", "import os\n\n\ndef twice(x):\n    os.abort()\n")
    result = project.grade("--kbench-checks=speed", "--kbench-budget=0.05", EAGER)
    assert result.ret == 1
    line = next(line for line in result.stdout.lines if line.startswith("pytest tasks/twice.py"))
    assert "--kbench-checks=speed" in line
    assert "--kbench-budget=0.05" in line


def test_a_budget_is_a_number_of_seconds(project):
    project.candidates("right.py")
    result = project.grade("--kbench-budget=none")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--kbench-budget=none: a positive number is needed*"])
