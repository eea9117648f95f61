"""Under `-n`: the same ids and verdicts as in one process, and nothing lost when a worker dies."""

from __future__ import annotations

import re

FEW = ("-k", "build or (one and s0) or (odd and s1 and spike)")


def outcomes(result) -> dict[str, str]:
    found = re.findall(
        r"(PASSED|FAILED|SKIPPED) (tasks/\S+::\S+)|(tasks/\S+::\S+) (PASSED|FAILED|SKIPPED)", result.stdout.str()
    )
    return {
        second or third: first or fourth for first, second, third, fourth in found if (second or third).endswith("]")
    }


def test_two_workers_give_the_ids_and_verdicts_of_one_process(project):
    project.candidates("right.py", "wrong.py", "dense.py")
    serial = outcomes(project.grade("-v", "--kbench-seed=1", "--kbench-maxfail=0", *FEW))
    spread = outcomes(project.grade("-v", "--kbench-seed=1", "--kbench-maxfail=0", "-n2", *FEW))
    assert serial == spread
    assert set(serial.values()) == {"PASSED", "FAILED", "SKIPPED"}


def test_last_failed_works_after_a_run_with_workers(project):
    project.candidates("right.py", "wrong.py")
    first = project.grade("-n2", "--kbench-seed=1", "--kbench-maxfail=0", *FEW).parseoutcomes()
    again = project.grade("--lf", "--kbench-seed=1", "--kbench-maxfail=0", *FEW).parseoutcomes()
    assert again["failed"] == first["failed"]
    assert "passed" not in again


def test_a_crashed_worker_costs_one_case_and_its_record_says_so(project):
    project.candidates("right.py")
    project.write(
        "conftest.py",
        """
        import os, pathlib, pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_call(item):
            if "odd:f32:s1" in item.name and os.environ.get("PYTEST_XDIST_WORKER"):
                os._exit(9)
        """.replace("\n        ", "\n"),
    )
    result = project.grade("-n2", "-k", "build or (odd and (s0 or s1))", "--kbench-report=results.json")
    counted = result.parseoutcomes()
    assert counted["failed"] == 1
    assert counted["passed"] > 20
    result.stdout.fnmatch_lines(["twice *right.py *ok *FAILED: environment"])
    assert result.ret == 1


def test_without_the_plugin_the_folders_are_ordinary(project):
    project.candidates("right.py")
    project.write("tasks/test_it.py", "def test_it():\n    pass\n")
    project.run("tasks", "-p", "no:kbench").assert_outcomes(passed=1)
