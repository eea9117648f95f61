"""Where an option's value comes from, and what the less common ones do."""

from __future__ import annotations

import re

import pytest

from pytest_kbench.options import OPTIONS, Settings, given

FEW = ("-k", "build or (one and s0)")
BY_NAME = {option.name: option for option in OPTIONS}


def test_the_command_line_wins_over_the_configuration_file():
    option = BY_NAME["kbench_timeout"]
    assert [each.text for each in given(option, "5", "60", "pytest.ini")] == ["5"]
    assert [each.text for each in given(option, None, "60", "pytest.ini")] == ["60"]
    assert given(option, None, None, "pytest.ini") == ()
    assert given(option, None, "", "pytest.ini") == ()


def test_the_configuration_file_sets_options(project):
    project.candidates("right.py", "wrong.py")
    project.pytester.makeini("[pytest]\nkbench_checks = build\nkbench_seed = 5eed\n")
    result = project.grade()
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["kbench: device cpu, seed 5eed"])
    assert project.grade("--kbench-checks=build,correct", *FEW).parseoutcomes()["failed"] > 0


def test_a_wrong_value_in_the_configuration_file_is_quoted_with_the_file(project):
    project.candidates("right.py")
    project.pytester.makeini("[pytest]\nkbench_timeout = soon\n")
    result = project.grade()
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: tox.ini: kbench_timeout = soon: a positive number is needed"])


def test_the_candidates_folder_is_an_option_too(project):
    project.write("kernels/twice/mine.py", "def twice(x):\n    return x * 2\n")
    project.write("kernels/twice/conftest.py", "raise SystemExit('imported')")
    result = project.grade("--kbench-candidates=kernels", "-k", "mine.py and build")
    result.assert_outcomes(passed=1)


def test_every_flag_round_trips_through_settings():
    settings = Settings(timeout=5.0, build_timeout=60.0, max_failures=0, memory=1 << 30, threads=2, sandbox="off")
    words = dict(word.split("=") for word in settings.flags().split())
    read = {option.field: option.value(words[option.flag]) for option in OPTIONS if option.flag in words}
    assert Settings.read({**read, "seed": settings.seed}) == settings


def test_a_required_device_that_is_not_there_fails_what_would_be_skipped(project):
    project.candidates("right.py")
    project.write("candidates/twice/fast.cu", "// a kernel")
    usual = project.grade(*FEW)
    assert usual.ret == 0
    usual.stdout.fnmatch_lines(["twice *fast.cu *skipped: device"])
    required = project.grade("--kbench-require-device=cuda", *FEW)
    assert required.ret == 1
    required.stdout.fnmatch_lines(
        ["twice *fast.cu *FAILED: device", "--kbench-require-device=cuda: there is none here"]
    )


def test_a_required_device_that_is_not_there_fails_a_run_without_kernels_for_it(project):
    project.candidates("right.py")
    assert project.grade("--kbench-require-device=cuda", *FEW).ret == 1
    assert project.grade("--kbench-require-device=cpu", *FEW).ret == 0


def test_a_cpp_and_a_cu_file_of_one_name_are_two_candidates(project):
    project.write("candidates/twice/naive.cu", "// a kernel")
    project.write("candidates/twice/naive.py", "def twice(x):\n    return x * 2\n")
    result = project.grade("-rs", "--kbench-checks=build")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(
        ["twice *naive.cu *skipped: device", "twice *naive.py *ok *", "SKIPPED * device: *CUDA*"]
    )


def test_without_the_sandbox_candidates_are_graded_and_the_header_says_so(project):
    project.candidates("right.py", "wrong.py", "crash.py")
    result = project.grade("--kbench-sandbox=off", *FEW)
    result.stdout.fnmatch_lines(
        [
            "kbench: sandbox OFF: candidates may do whatever you may",
            "twice *crash.py *FAILED: crashed",
            "twice *right.py *ok *passed*",
            "twice *wrong.py *FAILED: wrong",
        ]
    )


def test_marks_are_registered_and_select_by_check(project):
    project.candidates("right.py")
    result = project.grade("--strict-markers", "-m", "kbench_build or kbench_determinism")
    result.assert_outcomes(passed=2)


def test_quiet_prints_the_table_and_verbose_every_case(project):
    project.candidates("right.py")
    assert "::" not in project.grade("-q", *FEW).stdout.str()
    result = project.grade("-v", *FEW)
    result.stdout.fnmatch_lines(["tasks/twice.py::build[[]right.py[]] PASSED*"])


def test_junit_xml_has_every_case_with_its_record(project):
    project.candidates("right.py", "wrong.py")
    project.grade("--junitxml=junit.xml", *FEW)
    text = (project.path / "junit.xml").read_text()
    assert re.search(r'<testcase classname="tasks.twice" name="correct\[wrong.py:one:f32:[a-z:]*s0\]"', text)
    assert '<property name="kbench" value="{&quot;task&quot;: &quot;twice&quot;' in text


def test_the_first_failure_can_end_the_run(project):
    project.candidates("wrong.py")
    result = project.grade("-x")
    assert result.parseoutcomes()["failed"] == 1


def test_a_new_task_and_its_candidates_pass_at_once(project):
    result = project.run("--kbench-new", "swish", "tasks")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["wrote tasks/swish.py", "*grade it: pytest tasks/swish.py --kbench"])
    graded = project.run("tasks/swish.py", "--kbench", "-k", "build or (odd and f32 and s0)")
    assert graded.ret == 0
    graded.stdout.fnmatch_lines(["swish *eager.py *ok *passed*", "swish *naive.cpp *ok *passed*"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("twice", "tasks/twice.py is there already; choose another name"),
        ("1x", "it names a Python function and a file*"),
    ],
)
def test_a_new_task_overwrites_nothing_and_has_a_name(project, name, message):
    before = (project.path / "tasks/twice.py").read_text()
    result = project.run("--kbench-new", name, "tasks")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: --kbench-new={name}: {message}"])
    assert (project.path / "tasks/twice.py").read_text() == before
    assert not (project.path / "candidates").exists()
