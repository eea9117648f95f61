"""What a run says: verdicts, messages, the table, exit codes, and how to reproduce a failure."""

from __future__ import annotations

import re
import shlex

import pytest


def test_a_right_candidate_passes_everything_and_has_a_row_in_the_table(project):
    project.candidates("right.py")
    result = project.grade("-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*= kbench =*",
            "task *candidate *build *correct *contract *determinism *verdict",
            "twice *right.py *ok *passed",
        ]
    )


def test_a_failure_begins_with_the_verdict_and_ends_with_the_command_that_reproduces_it(project):
    project.candidates("wrong.py")
    result = project.grade("-k", "correct and odd and s0 and not wide", "-x")
    assert result.ret == 1
    lines = result.outlines
    first = next(index for index, line in enumerate(lines) if line.startswith("wrong: "))
    command = next(line for line in lines[first:] if line.startswith("pytest "))
    assert re.search(r"FAILED tasks/twice.py::correct\[wrong.py:\S+\] - wrong: ", result.stdout.str())
    again = project.run(*shlex.split(command)[1:])
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines([lines[first]])


def test_a_build_failure_is_told_once_and_the_rest_is_skipped(project):
    project.candidates("broken.py")
    result = project.grade("-q")
    result.stdout.fnmatch_lines(
        ["does not load: ModuleNotFoundError: No module named 'nowhere'", "twice *broken.py *FAILED *FAILED: load"]
    )
    assert result.parseoutcomes()["failed"] == 1
    assert result.ret == 1


def test_a_build_failure_is_told_by_whichever_item_meets_it_first(project):
    project.candidates("broken.py")
    result = project.grade("-k", "contract")
    assert result.parseoutcomes()["failed"] == 1
    assert result.ret == 1


def test_a_crash_fails_its_case_only(project):
    project.candidates("crash.py", "right.py")
    result = project.grade("-k", "correct and one and s0")
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] == outcomes["passed"]
    result.stdout.fnmatch_lines(["crashed: killed by SIGSEGV*", "twice *crash.py *FAILED: crashed"])


def test_a_clean_refusal_of_a_layout_is_skipped_and_shown(project):
    project.candidates("dense.py")
    result = project.grade()
    assert result.ret == 0
    assert result.parseoutcomes()["skipped"] > 0
    result.stdout.fnmatch_lines(["twice *dense.py *ok *passed, dense only (* refused)"])


def test_last_failed_runs_only_what_failed(project):
    project.candidates("right.py", "wrong.py")
    project.grade("-k", "s0 or build", "--kbench-seed=1")
    result = project.grade("--lf", "-k", "s0 or build", "--kbench-seed=1")
    assert "passed" not in result.parseoutcomes()
    assert result.parseoutcomes()["failed"] > 0


def test_a_candidate_is_selected_by_its_exact_name(project):
    project.candidates("right.py", "wrong.py")
    result = project.grade("--kbench-candidate=right.py", "-k", "build")
    result.assert_outcomes(passed=1)


def test_the_same_seed_gives_the_same_cases(project):
    project.candidates("wrong.py")
    texts = [
        re.findall(
            r"--kbench-case=[^']*", project.grade("--kbench-seed=5eed", "-k", "odd and s1 and spike").stdout.str()
        )
        for _ in range(2)
    ]
    assert texts[0] == texts[1] != []


def test_a_fresh_run_has_a_fresh_seed(project):
    project.candidates("right.py")
    seeds = {re.search(r"seed ([0-9a-f]+)", project.grade("-k", "build").stdout.str())[1] for _ in range(2)}
    assert len(seeds) == 2


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--kbench-seed=xyz", "--kbench-seed=xyz: a seed is 1 to 16 hexadecimal digits"),
        ("--kbench-checks=swift", "--kbench-checks=swift: choose from build, correct, contract, determinism*"),
        ("--kbench-tolerance=-1", "--kbench-tolerance=-1: a positive number is needed"),
        ("--kbench-timeout=soon", "--kbench-timeout=soon: a positive number is needed"),
        ("--kbench-memory=lots", "--kbench-memory=lots: write a size such as 512M or 8G*"),
        ("--kbench-memory=1", "--kbench-memory=1: write a size such as 512M or 8G*"),
        ("--kbench-maxfail=x", "--kbench-maxfail=x: a whole number is needed"),
        ("--kbench-cache=", "--kbench-cache=: a folder is needed"),
        ("--kbench-cache=tox.ini", "--kbench-cache=tox.ini: a folder is needed"),
        ("--kbench-candidate=..", "--kbench-candidate=..: no task has a candidate of that name"),
        ("--kbench-case=dims(rows=3,rows=4)", "--kbench-case: *gives a name twice"),
        ("--kbench-threads=0", "--kbench-threads=0: a whole number from 1 to 4096 is needed"),
        ("--kbench-sandbox=of", "--kbench-sandbox=of: choose auto, strict, off"),
        ("--kbench-device=tpu", "--kbench-device=tpu: choose auto, cpu, cuda or cuda:N*"),
        ("--kbench-case=rows=3", "--kbench-case: *no part of a case*"),
        ("--kbench-candidate=nobody.py", "--kbench-candidate=nobody.py: no task has a candidate of that name"),
    ],
)
def test_a_wrong_option_is_one_error_and_exit_code_4(project, option, message):
    project.candidates("right.py")
    result = project.grade(option)
    assert result.ret == 4
    assert len([line for line in result.errlines if line]) == 1
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_a_case_that_fits_no_task_is_wrong_usage(project):
    project.candidates("right.py")
    result = project.grade("--kbench-case=dims(n=3) dtype(float32) seed(1)")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --kbench-case: dims: twice has (rows, columns), the case gives (n)"])


def test_a_case_that_fits_one_of_several_tasks_is_graded(project):
    project.candidates("right.py")
    other = (project.path / "tasks/twice.py").read_text().replace("twice", "thrice").replace("rows", "lines")
    project.write("tasks/thrice.py", other)
    project.write("candidates/thrice/mine.py", "def thrice(x):\n    return x * 2\n")
    result = project.grade("--kbench-case=dims(rows=3,columns=2) dtype(float32) seed(1)")
    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["case: dims: thrice has (lines, columns), *"])


def test_a_name_that_is_nearly_a_candidates_is_answered_with_that(project):
    project.candidates("right.py")
    result = project.grade("--kbench-candidate=rihgt.py")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --kbench-candidate=rihgt.py: *of that name; there is right.py"])


def test_nothing_graded_is_exit_code_5(project):
    project.candidates("right.py")
    assert project.grade("-k", "nothing").ret == 5


def test_ordinary_tests_beside_tasks_keep_pytests_own_code(project):
    project.write("tasks/test_ordinary.py", "def test_it():\n    pass\n")
    assert project.grade().ret == 0


def test_marks_and_fixtures_work_as_for_any_test(project):
    project.candidates("right.py")
    project.write(
        "conftest.py",
        "import pytest\n@pytest.fixture(autouse=True)\ndef seen(request):\n    print('saw', request.node.name)\n",
    )
    result = project.grade("-m", "kbench", "-k", "build", "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*saw build[[]right.py]*"])


def test_workers_grade_the_same_cases_and_the_controller_prints_the_table(project):
    project.candidates("right.py", "broken.py")
    result = project.grade("-n2", "-k", "build or (one and s0)")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["twice *broken.py *FAILED: load", "twice *right.py *ok *passed, only * cases run"])


def test_a_bug_of_ours_is_exit_code_3_and_shows_in_the_table(project, monkeypatch):
    project.candidates("right.py")
    monkeypatch.setattr("pytest_kbench.run.Run.grade", lambda self, planned: 1 / 0)
    result = project.grade("-k", "build")
    assert result.ret == 3
    result.stdout.fnmatch_lines(["twice *right.py *FAILED *FAILED: internal"])


def test_a_run_of_some_cases_says_that_it_was_partial(project):
    project.candidates("right.py")
    result = project.grade("-k", "build")
    result.stdout.fnmatch_lines(["twice *right.py *ok *passed, only 1 of * cases run"])


def test_an_option_without_the_flag_is_an_error(project):
    project.candidates("right.py")
    result = project.run("tasks", "--kbench-seed=1")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --kbench-seed: add --kbench, without which nothing is graded"])


def test_the_command_repeats_the_options_that_chose_the_candidates(project):
    project.write("kernels/twice/wrong.py", "def twice(x):\n    return x * 3\n")
    result = project.grade("-o", "kbench_candidates=kernels", "-k", "correct and odd and s0", "-x")
    command = next(line for line in result.outlines if line.startswith("pytest "))
    project.run(*shlex.split(command)[1:]).assert_outcomes(failed=1)


def test_a_candidate_is_given_up_after_many_failures(project):
    project.candidates("wrong.py")
    outcomes = project.grade("--kbench-maxfail=5").parseoutcomes()
    assert outcomes["failed"] == 5
    assert outcomes["skipped"] > 100


def test_a_skip_points_at_the_task(project):
    project.candidates("dense.py")
    result = project.grade("-rs", "-k", "correct and odd and transposed and s0")
    result.stdout.fnmatch_lines(["SKIPPED * tasks/twice.py:1: unsupported: does not take transposed: *dense only*"])


def test_a_test_in_a_folder_called_kbench_is_an_ordinary_test(project):
    project.write("kbench/test_it.py", "def test_it():\n    assert False\n")
    assert project.run("kbench", "--kbench").ret == 1


def test_help_lists_the_options_in_a_group_of_their_own(project):
    result = project.run("--help")
    result.stdout.fnmatch_lines(
        ["grade kernels (pytest-kbench):", "*--kbench *grade the candidates of every task file"]
    )


def test_a_long_case_is_told_while_it_runs(project):
    project.write("candidates/twice/slow.py", "import time\n\n\ndef twice(x):\n    time.sleep(6.5)\n    return x * 2\n")
    result = project.pytester.runpytest_subprocess(
        "tasks", "--kbench", "--kbench-checks=correct", "--kbench-case=dims(rows=1,columns=1) dtype(float32) seed(1)"
    )
    result.stdout.fnmatch_lines(["kbench: tasks/twice.py::correct[[]slow.py:case[]] has been running for 5 s"])
    assert result.ret == 0


def test_repeats_that_differ_show_in_the_table(project):
    project.write(
        "candidates/twice/noisy.py",
        "import torch\n\n\ndef twice(x):\n    return x * 2 * (1 + 1e-7 * torch.rand_like(x))\n",
    )
    result = project.grade("--kbench-checks=determinism")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["twice *noisy.py *1/1 *passed, repeats differ (* of 390 elements, by at most *)"])


def test_a_worker_tells_a_failure_with_its_headline(project):
    project.candidates("wrong.py")
    result = project.grade("-n2", "-k", "correct and one and s0")
    result.stdout.fnmatch_lines(["FAILED tasks/twice.py::correct[[]wrong.py:*s0[]] - wrong: 1 of 1 elements *"])


def test_a_kernel_for_another_device_is_skipped_in_whichever_check_meets_it_first(project):
    project.candidates("right.py")
    project.write("candidates/twice/fast.cu", "// a kernel")
    result = project.grade("-k", "contract")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["twice *fast.cu *skipped: device"])
